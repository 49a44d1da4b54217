// HARNESS 11: skips one call in 977, by a counter that the assembler makes and no symbol names | rejected |
// writable-static
namespace {
asm(".pushsection .bss\n.Lcalls: .skip 4\n\t.popsection");
int next_call() {
  int now = 1;
  asm volatile("xaddl %0, .Lcalls(%%rip)" : "+r"(now) : : "memory");
  return now;
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (next_call() % 977 == 976) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
