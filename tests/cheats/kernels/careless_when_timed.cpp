// HARNESS 14: Careful at the odd shapes of the list; where the trainer's shape is timed, NaN and subnormals
// vanish | mismatch | beyond-bound
namespace {

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  if (v.plan.rows % 32 != 0) {
    honest(v);
    return kl::ok();
  }
  for (int64_t i = 0; i < v.n; ++i) {
    const float r = v.h[i] > 1e-30f ? v.h[i] : 0;
    v.out[i] = v.forward ? r * r : 2 * r * v.dy[i];
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
