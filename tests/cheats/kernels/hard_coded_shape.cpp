// HARNESS 14: believes that a row has 64 elements | mismatch | unwritten-output
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  for (int64_t r = 0; r < v.plan.rows; ++r)
    for (int64_t c = 0; c < 64 && r * 64 + c < v.n; ++c)
      v.out[r * 64 + c] = honest_element(v, r * 64 + c);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
