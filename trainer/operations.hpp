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

template <class R>
void add(R* y, const R* x, int64_t size);
// The first `columns` of each row: y[N,C] += x[N,columns]
template <class R>
void add_columns(R* y, const R* x, int64_t N, int64_t C, int64_t columns);

// cos and sin [T, D/2] of base 10,000, rounded to bf16.
template <class R>
void rotary_tables(R* cosine, R* sine, int64_t T, int64_t D);
// o[B,T,H,D] from q[B,T,H,D], k and v[B,T,K,D]; p[B,H,T,T] keeps the probabilities for backward
// (only the visible part of a row is written).
template <class R>
void attention(R* o, R* p, const R* q, const R* k, const R* v, const AttentionShape& shape);
// scratch: kAttentionRows * T elements per thread.
template <class R>
void attention_backward(R* dq, R* dk, R* dv, const R* d_o, const R* p, const R* q, const R* k,
                        const R* v, R* scratch, const AttentionShape& shape);

}  // namespace kl::trainer
