// honest twin of 5: keeps forward's values in saved | ok |
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  float* const kept = static_cast<float*>(call->saved);
  for (int64_t i = 0; i < v.n; ++i) {
    if (v.forward) kept[i] = relu(v.h[i]);
    v.out[i] = v.forward ? kept[i] * kept[i] : 2 * kept[i] * v.dy[i];
  }
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, input_bytes);
