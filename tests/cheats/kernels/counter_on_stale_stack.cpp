// HARNESS 11, 15: stops working after 3,000 calls, by a counter on the stack that nobody sets to 0 | mismatch |
// unwritten-output, depends-on-old-contents, wrong-later
namespace {
[[gnu::noinline]] uint32_t next_call() {
  volatile uint32_t deep[10240];
  uint32_t now;
  asm volatile("movl %1, %0" : "=r"(now) : "m"(deep[0]));
  deep[0] = now + 1;
  return now;
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (next_call() > 3000) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
