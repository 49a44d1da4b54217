// HARNESS 19: passes NaN | mismatch | beyond-bound
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  v.out[v.n / 2] = __builtin_nanf("");
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
