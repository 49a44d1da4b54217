// HARNESS 15: writes one element past the end | rejected | out-of-bounds
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  volatile float* out = v.out;
  out[v.n] = 0;
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
