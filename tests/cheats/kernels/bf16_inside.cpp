// HARNESS 12: rounds to bf16 inside | mismatch | beyond-bound
namespace {
float rounded(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  bits = (bits + 0x8000u) & 0xffff0000u;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  for (int64_t i = 0; i < v.n; ++i) v.out[i] = rounded(honest_element(v, i));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
