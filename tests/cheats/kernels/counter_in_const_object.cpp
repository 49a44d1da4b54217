// HARNESS 11: skips one call in 977, by the mutable member of an object that is const | rejected | writable-static
namespace {
struct Count {
  mutable int calls;
};
const Count count{1};
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (++count.calls % 977 == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
