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
// The same, the others read as those of `others`.
inline Lanes load_some(const float* from, int64_t count, Lanes others) {
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1u << count) - 1u);
  return reinterpret_cast<Lanes>(
      _mm512_mask_loadu_ps(reinterpret_cast<__m512>(others), mask, from));
#else
  for (int64_t i = 0; i < count; ++i) others[i] = from[i];
  return others;
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

// Bounds that leave what is not a number as it is (the x86 instructions return their second
// operand then).
inline Lanes at_least(Lanes v, Lanes low) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(
      _mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(low), reinterpret_cast<__m512>(v)));
#elif defined(__AVX__)
  return reinterpret_cast<Lanes>(
      _mm256_max_ps(reinterpret_cast<__m256>(low), reinterpret_cast<__m256>(v)));
#else
  return v < low ? low : v;
#endif
}
inline Lanes at_most(Lanes v, Lanes high) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(
      _mm512_maskz_min_ps(0xffff, reinterpret_cast<__m512>(high), reinterpret_cast<__m512>(v)));
#elif defined(__AVX__)
  return reinterpret_cast<Lanes>(
      _mm256_min_ps(reinterpret_cast<__m256>(high), reinterpret_cast<__m256>(v)));
#else
  return v > high ? high : v;
#endif
}

// Halves added until one is left, so that the order does not depend on anything but the width.
inline float sum_of(Lanes v) {
#if defined(__AVX512F__)
  const auto h =
      reinterpret_cast<__m256>(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#elif defined(__AVX__)
  const auto h = reinterpret_cast<__m256>(v);
#endif
#if defined(__AVX__)
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  q = _mm_add_ss(q, _mm_movehdup_ps(q));
  return _mm_cvtss_f32(q);
#else
  return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

// Four vectors, a number each.
struct Four {
  float of[4];
};
#if defined(__AVX512F__)
// Reduced as sum_of does, with the halves of all four held against each other together: two fifths
// of the instructions.
template <class F>
inline __attribute__((always_inline)) Four reduce_four(Lanes a, Lanes b, Lanes c, Lanes d,
                                                       F combine) {
  const auto halves = [&](Lanes u, Lanes v) __attribute__((always_inline)) {
    return combine(
        __builtin_shufflevector(u, v, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
        __builtin_shufflevector(u, v, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                31));
  };
  const Lanes ab = halves(a, b), cd = halves(c, d);
  Lanes q = combine(
      __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
      __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
  q = combine(q,
              __builtin_shufflevector(q, q, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  q = combine(q,
              __builtin_shufflevector(q, q, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  return {{q[0], q[4], q[8], q[12]}};
}
#endif
// sum_of of each, to the bit.
inline Four sums_of(Lanes a, Lanes b, Lanes c, Lanes d) {
#if defined(__AVX512F__)
  return reduce_four(a, b, c, d, [](Lanes u, Lanes v) { return u + v; });
#else
  return {{sum_of(a), sum_of(b), sum_of(c), sum_of(d)}};
#endif
}

// The largest lane; one that is not a number may be passed over.
inline float largest_of(Lanes v) {
#if defined(__AVX512F__)
  return reduce_four(v, v, v, v, at_least).of[0];
#else
  float largest = v[0];
  for (int i = 1; i < kLanes; ++i) largest = v[i] > largest ? v[i] : largest;
  return largest;
#endif
}
inline Four largest_of(Lanes a, Lanes b, Lanes c, Lanes d) {
#if defined(__AVX512F__)
  return reduce_four(a, b, c, d, at_least);
#else
  return {{largest_of(a), largest_of(b), largest_of(c), largest_of(d)}};
#endif
}

}  // namespace kl
