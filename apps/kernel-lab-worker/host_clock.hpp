// Clocks read by system call, so that replacing or detouring libc's functions changes nothing.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace kl {

inline int64_t clock_by_syscall_ns(clockid_t clock) {
  timespec now{};
#if defined(__x86_64__)
  long result = 0;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(SYS_clock_gettime), "D"(clock), "S"(&now)
               : "rcx", "r11", "memory");
#else
  ::syscall(SYS_clock_gettime, clock, &now);
#endif
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace kl
