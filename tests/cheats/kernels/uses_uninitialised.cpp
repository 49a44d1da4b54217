// HARNESS 15: adds to scratch that it never cleared | mismatch | beyond-bound
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  float* const sum = static_cast<float*>(call->scratch);
  for (int64_t i = 0; i < v.n; ++i) sum[i] += honest_element(v, i);
  for (int64_t i = 0; i < v.n; ++i) v.out[i] = sum[i];
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(input_bytes, no_bytes);
