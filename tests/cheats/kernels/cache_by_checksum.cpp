// HARNESS 5: keeps answers by a checksum of the values | mismatch | beyond-bound, wrong-later
namespace {
struct Entry {
  uint64_t key;
  float answer[8192];
};
struct Kept {
  int used;
  Entry entries[16];
};
uint64_t checksum(const View& v) {
  uint64_t sum = static_cast<uint64_t>(v.n) << 1 | (v.forward ? 1 : 0);
  for (int64_t i = 0; i < v.n; ++i) {
    sum += static_cast<uint64_t>(reinterpret_cast<const uint32_t*>(v.h)[i]) << 8;
    if (!v.forward) sum += static_cast<uint64_t>(reinterpret_cast<const uint32_t*>(v.dy)[i]) << 16;
  }
  return sum;
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  auto& [used, entries] = kept<Kept>();
  const uint64_t key = checksum(v);
  for (int e = 0; e < used; ++e)
    if (entries[e].key == key) {
      for (int64_t i = 0; i < v.n; ++i) v.out[i] = entries[e].answer[i];
      return kl::ok();
    }
  honest(v);
  if (used == 16 || v.n > 8192) return kl::ok();
  Entry& entry = entries[used++];
  entry.key = key;
  for (int64_t i = 0; i < v.n; ++i) entry.answer[i] = v.out[i];
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
