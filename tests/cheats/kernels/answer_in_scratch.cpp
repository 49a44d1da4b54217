// HARNESS 7: expects the last answer to lie in scratch still | mismatch | beyond-bound,
// depends-on-old-contents
namespace {
struct Kept {
  int64_t last[2];
};
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  auto& last = kept<Kept>().last;
  float* const old = static_cast<float*>(call->scratch);
  if (last[v.forward] == v.n) {
    for (int64_t i = 0; i < v.n; ++i) v.out[i] = old[i];
    return kl::ok();
  }
  honest(v);
  for (int64_t i = 0; i < v.n; ++i) old[i] = v.out[i];
  last[v.forward] = v.n;
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(input_bytes, no_bytes);
