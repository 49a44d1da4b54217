// One native vector of floats for kernel authors: the widest the compiler was told it may use.
// GCC vector extensions, so +, -, *, /, comparisons and ?: work lane by lane on any architecture.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace kl {

#if defined(__AVX512F__)
inline constexpr int kLaneBytes = 64;
#elif defined(__AVX__)
inline constexpr int kLaneBytes = 32;
#else
inline constexpr int kLaneBytes = 16;
#endif
inline constexpr int kLanes = kLaneBytes / 4;

typedef float Lanes __attribute__((vector_size(kLaneBytes)));
typedef uint32_t BitLanes __attribute__((vector_size(kLaneBytes)));

inline Lanes load(const float* from) {
  Lanes v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline void store(float* to, Lanes v) { std::memcpy(to, &v, sizeof v); }
inline Lanes lanes(float x) { return x - Lanes{}; }

// The first `count` lanes only, 0 < count < kLanes; the others are read as 0.
inline Lanes load_some(const float* from, int64_t count) {
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1u << count) - 1u);
  return reinterpret_cast<Lanes>(_mm512_maskz_loadu_ps(mask, from));
#else
  Lanes v{};
  for (int64_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
#endif
}
inline void store_some(float* to, Lanes v, int64_t count) {
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1u << count) - 1u);
  _mm512_mask_storeu_ps(to, mask, reinterpret_cast<__m512>(v));
#else
  for (int64_t i = 0; i < count; ++i) to[i] = v[i];
#endif
}

// Stores past the caches; `to` must be aligned to kLaneBytes. Worth it only for outputs that are
// larger than the last cache and not read soon. Call stream_fence on the same thread afterwards.
inline void stream(float* to, Lanes v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, reinterpret_cast<__m512>(v));
#elif defined(__AVX__)
  _mm256_stream_ps(to, reinterpret_cast<__m256>(v));
#else
  store(to, v);
#endif
}
inline void stream_fence() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}

// Pairwise, so that the order does not depend on anything but the width.
inline float sum_of(Lanes v) {
  float part[kLanes];
  std::memcpy(part, &v, sizeof part);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}

}  // namespace kl
