// bf16 as vectors of floats: the upper half of each float.
#pragma once

#include <kernel_lab/lanes.hpp>

namespace kl {

typedef uint16_t HalfLanes __attribute__((vector_size(kLaneBytes / 2)));

inline Lanes from_bf16(HalfLanes v) {
  return reinterpret_cast<Lanes>(__builtin_convertvector(v, BitLanes) << 16);
}
// Rounded to nearest, ties to even; what is not a number becomes the quiet NaN.
inline HalfLanes to_bf16(Lanes v) {
  const BitLanes bits = reinterpret_cast<BitLanes>(v);
  const BitLanes rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const BitLanes quiet = rounded - rounded + 0x7fc0u;
  return __builtin_convertvector(v == v ? rounded : quiet, HalfLanes);
}

inline Lanes load(const uint16_t* from) {
  HalfLanes v;
  std::memcpy(&v, from, sizeof v);
  return from_bf16(v);
}
inline void store(uint16_t* to, Lanes v) {
  const HalfLanes half = to_bf16(v);
  std::memcpy(to, &half, sizeof half);
}
// The first `count` lanes only, 0 < count < kLanes; the others are read as 0.
inline Lanes load_some(const uint16_t* from, int64_t count) {
  HalfLanes v{};
  std::memcpy(&v, from, static_cast<size_t>(count) * sizeof(uint16_t));
  return from_bf16(v);
}
inline void store_some(uint16_t* to, Lanes v, int64_t count) {
  const HalfLanes half = to_bf16(v);
  std::memcpy(to, &half, static_cast<size_t>(count) * sizeof(uint16_t));
}

}  // namespace kl
