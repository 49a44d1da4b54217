// Counter-based random numbers: the same (key, counter) gives the same number on any thread.
#pragma once

#include <cstdint>

namespace kl::trainer {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
inline uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
// [0, 1)
inline double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace kl::trainer
