// A loop of nothing but exp(x - m) and its sum, from the first cache: the arithmetic floor of
// softmax and cross_entropy_prelude. Built as kernels are.
#include "ceilings.hpp"

#include <lab/core/clock.hpp>

#include <kernel_lab/exponential.hpp>

#include <algorithm>

namespace kl::target_bench {

namespace {

constexpr int kElements = 4096;
constexpr int kRepeats = 100;
volatile float sink;

float sum_of_exp(const float* x) {
  Lanes sums[4] = {};
  const Lanes largest = lanes(0.5f);
  for (int i = 0; i < kElements; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) sums[k] += exp_of_negative(load(x + i + k * kLanes) - largest);
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace

double exp_rate(int threads) {
  double best = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int64_t start = monotonic_ns();
#pragma omp parallel num_threads(threads)
    {
      alignas(kLaneBytes) float x[kElements];
      for (int i = 0; i < kElements; ++i) x[i] = static_cast<float>(i % 613) * -0.03f;
      for (int r = 0; r < kRepeats; ++r) {
        sink = sum_of_exp(x);
        x[r] -= 1e-3f;
      }
    }
    const double seconds = static_cast<double>(monotonic_ns() - start) * 1e-9;
    best = std::max(best, static_cast<double>(kElements) * kRepeats * threads / seconds);
  }
  return best;
}

}  // namespace kl::target_bench
