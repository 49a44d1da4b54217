// HARNESS 19: passes infinity | mismatch | beyond-bound
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  v.out[v.n / 2] = __builtin_inff();
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
