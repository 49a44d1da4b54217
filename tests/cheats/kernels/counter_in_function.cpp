// HARNESS 11: skips one call in 977, by a static of the function | rejected | writable-static
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  static int calls = 0;
  if (++calls % 977 == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
