// The operations of a block that are not seams yet: plain, parallel over rows, same bits for the
// same number of threads. N = B*T rows; a row n is at position n % T.
#pragma once

#include <cstdint>

namespace kl::trainer {

struct AttentionShape {
  int64_t B, T, H, K, D;  // K key and value heads; H is a multiple of K
  int64_t window;         // keys before the current one: window + 1 keys are visible
};
constexpr int64_t kAttentionRows = 64;  // rows of scores worked on at once

// e[N,C] = table[token]; backward adds into the table's gradient, in token order per column.
template <class R>
void gather(R* e, const R* table, const int32_t* tokens, int64_t N, int64_t C);
template <class R>
void gather_backward(R* dtable, const R* de, const int32_t* tokens, int64_t N, int64_t C);

// y = lambda * x + mu * x0
template <class R>
void residual_blend(R* y, const R* x, const R* x0, R lambda, R mu, int64_t size);
// dx: in dy, out lambda * dy; dx0 += mu * dy; sums[2] += (dy . x, dy . x0); partial[2 * N]
template <class R>
void residual_blend_backward(R* dx, R* dx0, R* dlambda, R* dmu, const R* x, const R* x0, R lambda,
                             R mu, int64_t N, int64_t C, R* partial);
template <class R>
void add(R* y, const R* x, int64_t size);

// cos and sin [T, D/2] of base 10,000, rounded to bf16.
template <class R>
void rotary_tables(R* cosine, R* sine, int64_t T, int64_t D);
// In place on x[N,H,D]: y1 = x1 cos + x2 sin, y2 = x2 cos - x1 sin, then rmsnorm over D.
// r[N,H] keeps the reciprocal rms for backward.
template <class R>
void rotary_norm(R* x, R* r, const R* cosine, const R* sine, int64_t N, int64_t T, int64_t H,
                 int64_t D, R eps);
// dx: in the gradient of y, out that of x.
template <class R>
void rotary_norm_backward(R* dx, const R* y, const R* r, const R* cosine, const R* sine, int64_t N,
                          int64_t T, int64_t H, int64_t D);

// v[N,K,D] += g * table[token], g[N,K] = 2 sigmoid(a); a comes in `g` and leaves as the gate.
template <class R>
void value_gate(R* v, R* g, const R* table, const int32_t* tokens, int64_t N, int64_t K, int64_t D);
// dtable[token] += g * dv; da[N,K] = gradient of a.
template <class R>
void value_gate_backward(R* dtable, R* da, const R* dv, const R* g, const R* table,
                         const int32_t* tokens, int64_t N, int64_t K, int64_t D);

// o[B,T,H,D] from q[B,T,H,D], k and v[B,T,K,D]; p[B,H,T,T] keeps the probabilities for backward
// (only the visible part of a row is written).
template <class R>
void attention(R* o, R* p, const R* q, const R* k, const R* v, const AttentionShape& shape);
// scratch: kAttentionRows * T elements per thread.
template <class R>
void attention_backward(R* dq, R* dk, R* dv, const R* d_o, const R* p, const R* q, const R* k,
                        const R* v, R* scratch, const AttentionShape& shape);

}  // namespace kl::trainer
