// HARNESS 20: uses more scratch than it declared | rejected | scratch-overflow
namespace {
size_t little(const kl_problem*) { return 64; }
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  volatile float* const scratch = static_cast<float*>(call->scratch);
  for (int i = 0; i < 17; ++i) scratch[i] = 1;
  honest(v);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(little, no_bytes);
