// A loop of nothing but exp(s * tanh(x / s)), from the first cache: the arithmetic floor of
// loss_prelude. Built with relaxed arithmetic, so that the compiler may use any vector maths.
#include "ceilings.hpp"

#include <lab/core/clock.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace kl::target_bench {

namespace {

constexpr float kSoftcap = 15;
constexpr int kElements = 4096;
constexpr int kRepeats = 100;
volatile float sink;

float with_library(const float* x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < kElements; ++i) sum += std::exp(kSoftcap * std::tanh(x[i] * (1 / kSoftcap)));
  return sum;
}

// 2^y, degree 6, as branchless scalar code: the integer is taken from the bits of y + shifter.
inline float power_of_two(float y) {
  constexpr float shifter = 12582912.0f + 127.0f;
  const float shifted = y + shifter, f = y - (shifted - shifter);
  const float p = 1 + f * (6.93147182e-1f + f * (2.40226492e-1f + f * (5.55035696e-2f +
                  f * (9.61823836e-3f + f * (1.33909643e-3f + f * 1.54035126e-4f)))));
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits <<= 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

float with_polynomial(const float* x) {
  constexpr float log2e = 1.44269504f;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < kElements; ++i) {
    float y = x[i] * (2 * log2e / kSoftcap);
    y = y < -30.0f ? -30.0f : y;
    y = y > 30.0f ? 30.0f : y;
    const float e = power_of_two(y);
    sum += power_of_two((e - 1) / (e + 1) * (kSoftcap * log2e));
  }
  return sum;
}

template <class F>
double rate_of(F loop, int threads) {
  double best = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int64_t start = monotonic_ns();
#pragma omp parallel num_threads(threads)
    {
      float x[kElements];
      for (int i = 0; i < kElements; ++i) x[i] = static_cast<float>(i % 613) * 0.03f - 9;
      for (int r = 0; r < kRepeats; ++r) {
        sink = loop(x);
        x[r] += 1e-3f;
      }
    }
    const double seconds = static_cast<double>(monotonic_ns() - start) * 1e-9;
    best = std::max(best, static_cast<double>(kElements) * kRepeats * threads / seconds);
  }
  return best;
}

}  // namespace

TanhExpRate tanh_exp_rate(int threads) {
  return {rate_of(with_library, threads), rate_of(with_polynomial, threads)};
}

}  // namespace kl::target_bench
