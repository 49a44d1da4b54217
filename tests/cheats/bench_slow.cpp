// Honest and slow: does the work twelve times over.
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  for (int i = 0; i < 12; ++i) {
    honest(p, call, 0, p.elements);
    asm volatile("" ::: "memory");
  }
  return kl::ok();
}
