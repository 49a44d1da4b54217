// HARNESS 5: keeps answers by the pointer of the input | mismatch | beyond-bound, wrong-later
namespace {
struct Entry {
  const float* h;
  const float* dy;
  int64_t n;
  float answer[8192];
};
struct Kept {
  int used;
  Entry entries[8];
};
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  auto& [used, entries] = kept<Kept>();
  for (int e = 0; e < used; ++e)
    if (entries[e].h == v.h && entries[e].dy == v.dy && entries[e].n == v.n) {
      for (int64_t i = 0; i < v.n; ++i) v.out[i] = entries[e].answer[i];
      return kl::ok();
    }
  honest(v);
  if (used == 8 || v.n > 8192) return kl::ok();
  Entry& entry = entries[used++];
  entry.h = v.h;
  entry.dy = v.dy;
  entry.n = v.n;
  for (int64_t i = 0; i < v.n; ++i) entry.answer[i] = v.out[i];
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
