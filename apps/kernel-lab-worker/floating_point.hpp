// The floating-point control state of the calling thread as one word: flush-to-zero, denormals are
// zero, rounding and exception masks, without the sticky exception flags.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace kl {

inline uint64_t floating_point_control() {
#if defined(__x86_64__)
  uint16_t x87 = 0;
  asm volatile("fnstcw %0" : "=m"(x87));
  return (uint64_t{x87} << 32) | (_mm_getcsr() & ~0x3Fu);
#elif defined(__aarch64__)
  uint64_t fpcr = 0;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
#else
#error "floating-point control state: this processor is not known"
#endif
}

inline void set_floating_point_control(uint64_t control) {
#if defined(__x86_64__)
  const auto x87 = static_cast<uint16_t>(control >> 32);
  asm volatile("fldcw %0" : : "m"(x87));
  _mm_setcsr(static_cast<uint32_t>(control));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(control));
#endif
}

}  // namespace kl
