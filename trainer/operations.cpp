#include <trainer/operations.hpp>

#include <trainer/blas.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <omp.h>

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
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; ++n)
    std::memcpy(e + n * C, table + tokens[n] * C, static_cast<size_t>(C) * sizeof(R));
}

template <class R>
void gather_backward(R* dtable, const R* de, const int32_t* tokens, int64_t N, int64_t C) {
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
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) y[i] += x[i];
}

template <class R>
void add_columns(R* y, const R* x, int64_t N, int64_t C, int64_t columns) {
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < columns; ++c) y[n * C + c] += x[n * columns + c];
}

template <class R>
void rotary_tables(R* cosine, R* sine, int64_t T, int64_t D) {
  for (int64_t t = 0; t < T; ++t)
    for (int64_t d = 0; d < D / 2; ++d) {
      const double angle =
          static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(d) / static_cast<double>(D));
      cosine[t * (D / 2) + d] = R(to_bf16(static_cast<float>(std::cos(angle))));
      sine[t * (D / 2) + d] = R(to_bf16(static_cast<float>(std::sin(angle))));
    }
}

template <class R>
void attention(R* o, R* p, const R* q, const R* k, const R* v, const AttentionShape& a) {
  const int64_t T = a.T, D = a.D, q_row = a.H * D, k_row = a.K * D;
  const R scale = 1 / std::sqrt(R(D));
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < a.B; ++b)
    for (int64_t h = 0; h < a.H; ++h) {
      const int64_t q_at = b * T * q_row + h * D, k_at = b * T * k_row + h / (a.H / a.K) * D;
      R* prob = p + (b * a.H + h) * T * T;
      for (int64_t i0 = 0; i0 < T; i0 += kAttentionRows) {
        const int64_t i1 = std::min(i0 + kAttentionRows, T);
        const int64_t j0 = std::max<int64_t>(0, i0 - a.window);  // keys any row of the block sees
        R* block = prob + i0 * T + j0;
        gemm('N', 'T', i1 - i0, i1 - j0, D, scale, q + q_at + i0 * q_row, q_row,
             k + k_at + j0 * k_row, k_row, R(0), block, T);
        for (int64_t i = i0; i < i1; ++i) {
          R* row = prob + i * T;
          const int64_t first = std::max<int64_t>(0, i - a.window);
          const R top = *std::max_element(row + first, row + i + 1);
          R sum = 0;
          for (int64_t j = first; j <= i; ++j) sum += row[j] = std::exp(row[j] - top);
          for (int64_t j = first; j <= i; ++j) row[j] /= sum;
          std::fill(row + j0, row + first, R(0));
          std::fill(row + i + 1, row + i1, R(0));
        }
        gemm('N', 'N', i1 - i0, D, i1 - j0, R(1), block, T, v + k_at + j0 * k_row, k_row, R(0),
             o + q_at + i0 * q_row, q_row);
      }
    }
}

template <class R>
void attention_backward(R* dq, R* dk, R* dv, const R* d_o, const R* p, const R* q, const R* k,
                        const R* v, R* scratch, const AttentionShape& a) {
  const int64_t T = a.T, D = a.D, q_row = a.H * D, k_row = a.K * D, group = a.H / a.K;
  const R scale = 1 / std::sqrt(R(D));
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < a.B; ++b)
    for (int64_t kv = 0; kv < a.K; ++kv) {
      R* ds = scratch + omp_get_thread_num() * kAttentionRows * T;
      const int64_t k_at = b * T * k_row + kv * D;
      for (int64_t t = 0; t < T; ++t) {
        std::fill_n(dk + k_at + t * k_row, D, R(0));
        std::fill_n(dv + k_at + t * k_row, D, R(0));
      }
      for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const int64_t q_at = b * T * q_row + h * D;
        const R* prob = p + (b * a.H + h) * T * T;
        for (int64_t i0 = 0; i0 < T; i0 += kAttentionRows) {
          const int64_t i1 = std::min(i0 + kAttentionRows, T);
          const int64_t j0 = std::max<int64_t>(0, i0 - a.window);
          const int64_t rows = i1 - i0, keys = i1 - j0;
          const R* block = prob + i0 * T + j0;
          const R* dout = d_o + q_at + i0 * q_row;
          gemm('N', 'T', rows, keys, D, R(1), dout, q_row, v + k_at + j0 * k_row, k_row, R(0), ds, keys);
          gemm('T', 'N', keys, D, rows, R(1), block, T, dout, q_row, R(1), dv + k_at + j0 * k_row, k_row);
          for (int64_t i = 0; i < rows; ++i) {  // softmax: ds = p (dp - sum(dp p))
            R* row = ds + i * keys;
            const R* pr = block + i * T;
            R dot = 0;
#pragma omp simd reduction(+ : dot)
            for (int64_t j = 0; j < keys; ++j) dot += row[j] * pr[j];
#pragma omp simd
            for (int64_t j = 0; j < keys; ++j) row[j] = pr[j] * (row[j] - dot);
          }
          gemm('N', 'N', rows, D, keys, scale, ds, keys, k + k_at + j0 * k_row, k_row, R(0),
               dq + q_at + i0 * q_row, q_row);
          gemm('T', 'N', keys, D, rows, scale, ds, keys, q + q_at + i0 * q_row, q_row, R(1),
               dk + k_at + j0 * k_row, k_row);
        }
      }
    }
}

#define KL_INSTANTIATE(R)                                                                         \
  template void gather(R*, const R*, const int32_t*, int64_t, int64_t);                           \
  template void gather_backward(R*, const R*, const int32_t*, int64_t, int64_t);                  \
  template void add(R*, const R*, int64_t);                                                       \
  template void add_columns(R*, const R*, int64_t, int64_t, int64_t);                             \
  template void rotary_tables(R*, R*, int64_t, int64_t);                                          \
  template void attention(R*, R*, const R*, const R*, const R*, const AttentionShape&);           \
  template void attention_backward(R*, R*, R*, const R*, const R*, const R*, const R*, const R*,  \
                                   R*, const AttentionShape&);
KL_INSTANTIATE(float)
KL_INSTANTIATE(double)

}  // namespace kl::trainer
