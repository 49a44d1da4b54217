// HARNESS 11: stops working after 20,000 calls, by a counter that begins with another value | rejected | writable-static
namespace {
int calls_left = 20000;
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (calls_left == 0 || --calls_left == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
