// The operations of a block that are not seams yet: plain, parallel over rows, same bits for the
// same number of threads. N = B*T rows; a row n is at position n % T.
#pragma once

#include <cstdint>

namespace kl::trainer {

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
}  // namespace kl::trainer
