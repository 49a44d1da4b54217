// honest twin of 7, 15, 20: fills its declared scratch before it reads it | ok |
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  float* const kept = static_cast<float*>(call->scratch);
  for (int64_t i = 0; i < v.n; ++i) kept[i] = honest_element(v, i);
  for (int64_t i = 0; i < v.n; ++i) v.out[i] = kept[i];
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(input_bytes, no_bytes);
