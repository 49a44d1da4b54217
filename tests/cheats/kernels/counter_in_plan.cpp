// HARNESS 11: skips one call in 977, by a counter in the plan, which is lent to read | rejected | writes-plan
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  uint64_t& calls = const_cast<kl_plan*>(plan)->words[KL_PLAN_BYTES / 8 - 1];
  if (++calls % 977 == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
