// HARNESS 5: keeps forward's h in a global for backward | mismatch | state-outside-saved,
// beyond-bound
namespace {
float kept[1 << 16];
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  if (v.n > 1 << 16) {
    honest(v);
    return kl::ok();
  }
  for (int64_t i = 0; i < v.n; ++i) {
    if (v.forward) kept[i] = relu(v.h[i]);
    v.out[i] = v.forward ? kept[i] * kept[i] : 2 * kept[i] * v.dy[i];
  }
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
