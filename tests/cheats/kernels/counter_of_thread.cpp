// HARNESS 11: skips one call in 977, by a counter that is its thread's | rejected | writable-static
namespace {
thread_local int calls;
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (++calls % 977 == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
