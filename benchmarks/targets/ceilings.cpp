#include "ceilings.hpp"

#include <kernel_lab/lanes.hpp>

#include <algorithm>

namespace kl::target_bench {

namespace {

volatile float sink;  // keeps sums alive

template <bool two, bool streamed>
void move_range(const float* a, const float* b, float* out, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) {
    Lanes v = load(a + i);
    if constexpr (two) v += load(b + i);
    if constexpr (streamed)
      stream(out + i, v);
    else
      store(out + i, v);
  }
  if constexpr (streamed) stream_fence();
}

void read_range(const float* a, int64_t begin, int64_t end) {
  Lanes sums[4] = {};
  int64_t i = begin;
  for (; i + 4 * kLanes <= end; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) sums[k] += load(a + i + k * kLanes);
  sink = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace

void move_bytes(const float* first, const float* second, float* out, int64_t elements, bool streamed,
                int threads) {
  const int64_t vectors = elements / kLanes;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (int part = 0; part < threads; ++part) {
    const int64_t begin = vectors * part / threads * kLanes;
    const int64_t end = vectors * (part + 1) / threads * kLanes;
    if (out == nullptr)
      read_range(first, begin, end);
    else if (second == nullptr)
      streamed ? move_range<false, true>(first, second, out, begin, end)
               : move_range<false, false>(first, second, out, begin, end);
    else
      streamed ? move_range<true, true>(first, second, out, begin, end)
               : move_range<true, false>(first, second, out, begin, end);
  }
}

}  // namespace kl::target_bench
