// HARNESS 21: maps memory at every call and keeps it | rejected | leak, forbidden-syscall
namespace {
long system_call(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  constexpr long kMmap = 9, kBytes = 16384;
  const long at = system_call(kMmap, 0, kBytes, 3, 0x22, -1, 0);
  if (at > 0)
    for (long i = 0; i < kBytes; i += 4096) reinterpret_cast<volatile char*>(at)[i] = 1;
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
