// Starts a process by system call that would burn the other core while the baseline runs.
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  bool& started = kept<bool>();
  const Plan& p = kl::plan_as<Plan>(plan);
  if (!started && system_call(56 /* clone */, 17 /* SIGCHLD */, 0, 0) == 0)
    for (;;) asm volatile("" ::: "memory");
  started = true;
  honest(p, call, 0, p.elements);
  return kl::ok();
}
