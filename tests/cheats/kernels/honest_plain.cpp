// honest twin of 9, 10, 19: every element, as the formula reads | ok |
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
