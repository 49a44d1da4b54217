// HARNESS 14: takes a short cut where values are large | mismatch | beyond-bound
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  for (int64_t i = 0; i < v.n; ++i) v.out[i] = v.h[i] > 100 ? 1e4f : honest_element(v, i);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
