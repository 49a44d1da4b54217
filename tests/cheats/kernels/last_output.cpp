// HARNESS 9: returns the answer of the call before | mismatch | beyond-bound, wrong-later
namespace {
struct Kept {
  float answer[2][1 << 16];
  int64_t size[2];
};
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  auto& [kept_answer, kept_size] = kept<Kept>();
  float* const before = kept_answer[v.forward];
  if (v.n > 1 << 16) {
    honest(v);
    return kl::ok();
  }
  const bool replay = kept_size[v.forward] == v.n;
  for (int64_t i = 0; i < v.n; ++i) {
    const float now = honest_element(v, i);
    v.out[i] = replay ? before[i] : now;
    before[i] = now;
  }
  kept_size[v.forward] = v.n;
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
