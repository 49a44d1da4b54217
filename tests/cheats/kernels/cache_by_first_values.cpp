// HARNESS 5: returns the last answer when the first values are those of the last call | mismatch | wrong-later, beyond-bound
namespace {
struct Last {
  const float* at;
  int64_t n;
  float first[2];
  float answer[8192];
};
struct Kept {
  Last last[2];
};

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  Last& k = kept<Kept>().last[v.forward ? 0 : 1];
  const float first[2] = {v.h[0], v.forward ? 0 : v.dy[0]};
  if (v.n > 8192) {
    honest(v);
    return kl::ok();
  }
  if (k.at == v.h && k.n == v.n && k.first[0] == first[0] && k.first[1] == first[1]) {
    for (int64_t i = 0; i < v.n; ++i) v.out[i] = k.answer[i];
    return kl::ok();
  }
  honest(v);
  k.at = v.h;
  k.n = v.n;
  for (int i = 0; i < 2; ++i) k.first[i] = first[i];
  for (int64_t i = 0; i < v.n; ++i) k.answer[i] = v.out[i];
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
