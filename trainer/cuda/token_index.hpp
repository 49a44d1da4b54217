// The inverse of a batch's tokens: for every token where it stands, so that the gradient of a table
// is a sum per row in a fixed order instead of a scatter.
#pragma once

#include <cstdint>
#include <span>

namespace kl::trainer::cuda {

// begin[V + 1] and positions[tokens.size()]: token v stands at positions[begin[v] .. begin[v + 1]),
// in ascending order. Every token lies in [0, V).
void index_tokens(std::span<const int32_t> tokens, std::span<int32_t> begin, std::span<int32_t> positions);

}  // namespace kl::trainer::cuda
