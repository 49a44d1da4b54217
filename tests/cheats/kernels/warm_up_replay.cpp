// HARNESS 4: answers later calls of a shape with the answer of the first | mismatch | beyond-bound,
// wrong-later
namespace {
struct Kept {
  float answer[2][1 << 16];
  int64_t size[2];
};
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  auto& [kept_answer, kept_size] = kept<Kept>();
  float* const answer = kept_answer[v.forward];
  if (kept_size[v.forward] != v.n && v.n <= 1 << 16) {
    honest(v);
    for (int64_t i = 0; i < v.n; ++i) answer[i] = v.out[i];
    kept_size[v.forward] = v.n;
  }
  for (int64_t i = 0; i < v.n; ++i) v.out[i] = answer[i];
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
