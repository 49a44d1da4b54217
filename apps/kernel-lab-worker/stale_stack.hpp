// What earlier calls left on the stack is no memory for the next one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kl {

// Fills the stack below the caller, where a kernel's own frames will lie. What lies deeper stays.
[[gnu::noinline]] inline void overwrite_stack_below(uint32_t word) {
  constexpr size_t kWords = (size_t{64} << 10) / sizeof(uint32_t);
  [[maybe_unused]] volatile uint32_t below[kWords];  // never read: it is what lies there that matters
  for (size_t i = 0; i < kWords; ++i) below[i] = word;
}

}  // namespace kl
