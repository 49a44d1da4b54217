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
void residual_blend(R* y, const R* x, const R* x0, R lambda, R mu, int64_t size) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) y[i] = lambda * x[i] + mu * x0[i];
}

template <class R>
void residual_blend_backward(R* dx, R* dx0, R* dlambda, R* dmu, const R* x, const R* x0, R lambda,
                             R mu, int64_t N, int64_t C, R* partial) {
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < N; ++n) {
    R by_x = 0, by_x0 = 0;
#pragma omp simd reduction(+ : by_x, by_x0)
    for (int64_t i = n * C; i < (n + 1) * C; ++i) {
      by_x += dx[i] * x[i];
      by_x0 += dx[i] * x0[i];
      dx0[i] += mu * dx[i];
      dx[i] *= lambda;
    }
    partial[2 * n] = by_x;
    partial[2 * n + 1] = by_x0;
  }
  double sum_x = 0, sum_x0 = 0;
  for (int64_t n = 0; n < N; ++n) {
    sum_x += static_cast<double>(partial[2 * n]);
    sum_x0 += static_cast<double>(partial[2 * n + 1]);
  }
  *dlambda += static_cast<R>(sum_x);
  *dmu += static_cast<R>(sum_x0);
}

template <class R>
void add(R* y, const R* x, int64_t size) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) y[i] += x[i];
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
void rotary_norm(R* x, R* r, const R* cosine, const R* sine, int64_t N, int64_t T, int64_t H,
                 int64_t D, R eps) {
  const int64_t half = D / 2;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t n = 0; n < N; ++n)
    for (int64_t h = 0; h < H; ++h) {
      R* x1 = x + (n * H + h) * D;
      R* x2 = x1 + half;
      const R* c = cosine + n % T * half;
      const R* s = sine + n % T * half;
      R sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t d = 0; d < half; ++d) {
        const R y1 = x1[d] * c[d] + x2[d] * s[d];
        const R y2 = x2[d] * c[d] - x1[d] * s[d];
        x1[d] = y1;
        x2[d] = y2;
        sum += y1 * y1 + y2 * y2;
      }
      const R scale = 1 / std::sqrt(sum / R(D) + eps);
      r[n * H + h] = scale;
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) x1[d] *= scale;
    }
}

template <class R>
void rotary_norm_backward(R* dx, const R* y, const R* r, const R* cosine, const R* sine, int64_t N,
                          int64_t T, int64_t H, int64_t D) {
  const int64_t half = D / 2;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t n = 0; n < N; ++n)
    for (int64_t h = 0; h < H; ++h) {
      R* d1 = dx + (n * H + h) * D;
      R* d2 = d1 + half;
      const R* y1 = y + (n * H + h) * D;
      const R* y2 = y1 + half;
      const R* c = cosine + n % T * half;
      const R* s = sine + n % T * half;
      const R scale = r[n * H + h];
      R dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t d = 0; d < D; ++d) dot += d1[d] * y1[d];
      dot /= R(D);
#pragma omp simd
      for (int64_t d = 0; d < half; ++d) {
        const R g1 = scale * (d1[d] - y1[d] * dot);  // of the rotated value
        const R g2 = scale * (d2[d] - y2[d] * dot);
        d1[d] = g1 * c[d] - g2 * s[d];
        d2[d] = g1 * s[d] + g2 * c[d];
      }
    }
}

template <class R>
void value_gate(R* v, R* g, const R* table, const int32_t* tokens, int64_t N, int64_t K, int64_t D) {
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) {
      const R gate = 2 / (1 + std::exp(-g[n * K + k]));
      g[n * K + k] = gate;
      R* to = v + (n * K + k) * D;
      const R* from = table + (tokens[n] * K + k) * D;
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) to[d] += gate * from[d];
    }
}

template <class R>
void value_gate_backward(R* dtable, R* da, const R* dv, const R* g, const R* table,
                         const int32_t* tokens, int64_t N, int64_t K, int64_t D) {
#pragma omp parallel
  {
#pragma omp for collapse(2) schedule(static)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t k = 0; k < K; ++k) {
        const R* dy = dv + (n * K + k) * D;
        const R* row = table + (tokens[n] * K + k) * D;
        R dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t d = 0; d < D; ++d) dot += dy[d] * row[d];
        const R gate = g[n * K + k];
        da[n * K + k] = dot * gate * (1 - gate / 2);  // 2 sigmoid' = gate (1 - gate / 2)
      }
    const auto [begin, end] = my_columns(K * D);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t c = begin; c < end; ++c)
        dtable[tokens[n] * K * D + c] += g[n * K + c / D] * dv[n * K * D + c];
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
  template void residual_blend(R*, const R*, const R*, R, R, int64_t);                            \
  template void residual_blend_backward(R*, R*, R*, R*, const R*, const R*, R, R, int64_t,        \
                                        int64_t, R*);                                             \
  template void add(R*, const R*, int64_t);                                                       \
  template void rotary_tables(R*, R*, int64_t, int64_t);                                          \
  template void rotary_norm(R*, R*, const R*, const R*, int64_t, int64_t, int64_t, int64_t, R);   \
  template void rotary_norm_backward(R*, const R*, const R*, const R*, const R*, int64_t,         \
                                     int64_t, int64_t, int64_t);                                  \
  template void value_gate(R*, R*, const R*, const int32_t*, int64_t, int64_t, int64_t);          \
  template void value_gate_backward(R*, R*, const R*, const R*, const R*, const int32_t*,         \
                                    int64_t, int64_t, int64_t);                                   \
  template void attention(R*, R*, const R*, const R*, const R*, const AttentionShape&);           \
  template void attention_backward(R*, R*, R*, const R*, const R*, const R*, const R*, const R*,  \
                                   R*, const AttentionShape&);
KL_INSTANTIATE(float)
KL_INSTANTIATE(double)

}  // namespace kl::trainer
