// HARNESS 10: leaves the last row | mismatch | unwritten-output
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  const int64_t end = v.plan.rows > 2 ? v.n - v.plan.columns : v.n;
  for (int64_t i = 0; i < end; ++i) v.out[i] = honest_element(v, i);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
