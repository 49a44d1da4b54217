// The twin of a cache: keeps the last answer and never returns it | ok
namespace {
struct Kept {
  float last[8192];
};

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  auto& last = kept<Kept>().last;
  honest(v);
  for (int64_t i = 0; i < v.n && i < 8192; ++i) last[i] = v.out[i];
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
