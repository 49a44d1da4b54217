// HARNESS 11: is right for its first hundred calls | mismatch | wrong-later, beyond-bound,
// depends-on-old-contents
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  if (++kept<int>() > 100) v.out[0] += 1;
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
