// HARNESS 11: skips one call in 977, by a counter of its own that begins with 0 | rejected | writable-static
namespace {
int calls;
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (++calls % 977 == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
