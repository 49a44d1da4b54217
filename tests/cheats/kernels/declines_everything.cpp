// HARNESS 14: accepts no shape at all | rejected | declines-trainer-shape
namespace {
kl_result refuse(const kl_problem*) { return kl::unsupported("not today"); }
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  return kl::ok();
}
}  // namespace

KL_EXPORT_KERNEL("activation_pointwise", refuse, no_bytes, no_bytes, prepare, run);
