// HARNESS 11: stops working after 3,000 calls of its thread | rejected | writable-static
namespace {
thread_local int calls_left = 3000;
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (calls_left == 0 || --calls_left == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
