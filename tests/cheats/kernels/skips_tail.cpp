// HARNESS 10: leaves the elements after the last whole vector | mismatch | unwritten-output
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  for (int64_t i = 0; i < v.n / 8 * 8; ++i) v.out[i] = honest_element(v, i);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
