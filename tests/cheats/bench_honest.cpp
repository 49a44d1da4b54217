// The twin of every cheat: does the work, once, each time.
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  honest(p, call, 0, p.elements);
  return kl::ok();
}
