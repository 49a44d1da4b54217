// HARNESS 5: keeps forward's h for backward in memory of its own | mismatch | state-outside-saved,
// beyond-bound
namespace {
struct Kept {
  float h[1 << 16];
};
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  auto& h = kept<Kept>().h;
  if (v.n > 1 << 16) {
    honest(v);
    return kl::ok();
  }
  for (int64_t i = 0; i < v.n; ++i) {
    if (v.forward) h[i] = relu(v.h[i]);
    v.out[i] = v.forward ? h[i] * h[i] : 2 * h[i] * v.dy[i];
  }
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
