#include <trainer/operations.hpp>

#include <trainer/range_log.hpp>

#include <omp.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace kl::trainer {
namespace {

// Round to nearest even at 8 significant bits.
float to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}

struct Columns {
  int64_t begin, end;
};
// The columns of this thread: a scatter by columns needs no atomics and keeps token order.
Columns my_columns(int64_t C) {
  const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
  return {C * me / threads, C * (me + 1) / threads};
}

}  // namespace

template <class R>
void gather(R* e, const R* table, const int32_t* tokens, int64_t N, int64_t C) {
  const RangeScope range(Pass::embedding);
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; ++n)
    std::memcpy(e + n * C, table + tokens[n] * C, static_cast<size_t>(C) * sizeof(R));
}

template <class R>
void gather_backward(R* dtable, const R* de, const int32_t* tokens, int64_t N, int64_t C) {
  const RangeScope range(Pass::embedding);
#pragma omp parallel
  {
    const auto [begin, end] = my_columns(C);
    for (int64_t n = 0; n < N; ++n) {
      R* to = dtable + tokens[n] * C;
      const R* from = de + n * C;
      for (int64_t c = begin; c < end; ++c) to[c] += from[c];
    }
  }
}

template <class R>
void add(R* y, const R* x, int64_t size) {
  const RangeScope range(Pass::sum);
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) y[i] += x[i];
}

template <class R>
void add_columns(R* y, const R* x, int64_t N, int64_t C, int64_t columns) {
  const RangeScope range(Pass::sum);
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < columns; ++c) y[n * C + c] += x[n * columns + c];
}

template <class R>
void rotary_tables(R* cosine, R* sine, int64_t T, int64_t D) {
  for (int64_t t = 0; t < T; ++t)
    for (int64_t d = 0; d < D / 2; ++d) {
      const double angle =
          static_cast<double>(t) *
          std::pow(10000.0, -2.0 * static_cast<double>(d) / static_cast<double>(D));
      cosine[t * (D / 2) + d] = R(to_bf16(static_cast<float>(std::cos(angle))));
      sine[t * (D / 2) + d] = R(to_bf16(static_cast<float>(std::sin(angle))));
    }
}

#define KL_INSTANTIATE(R)                                                        \
  template void gather(R*, const R*, const int32_t*, int64_t, int64_t);          \
  template void gather_backward(R*, const R*, const int32_t*, int64_t, int64_t); \
  template void add(R*, const R*, int64_t);                                      \
  template void add_columns(R*, const R*, int64_t, int64_t, int64_t);            \
  template void rotary_tables(R*, R*, int64_t, int64_t);
KL_INSTANTIATE(float)
KL_INSTANTIATE(double)

}  // namespace kl::trainer
