// honest twin of 14: declines rows that are no multiple of 64 | ok |
namespace {
kl_result whole_rows(const kl_problem* p) {
  return p->inputs[0].shape[1] % 64 == 0 ? accepts(p) : kl::unsupported("rows of a multiple of 64");
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  return kl::ok();
}
}  // namespace

KL_EXPORT_KERNEL("activation_pointwise", whole_rows, no_bytes, no_bytes, prepare, run);
