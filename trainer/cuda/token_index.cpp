#include <trainer/cuda/token_index.hpp>

#include <algorithm>

namespace kl::trainer::cuda {

void index_tokens(std::span<const int32_t> tokens, std::span<int32_t> begin, std::span<int32_t> positions) {
  std::fill(begin.begin(), begin.end(), 0);
  for (const int32_t token : tokens) ++begin[static_cast<size_t>(token) + 1];
  for (size_t v = 1; v < begin.size(); ++v) begin[v] += begin[v - 1];
  for (size_t n = 0; n < tokens.size(); ++n)  // begin[v] walks to the end of v's share ...
    positions[static_cast<size_t>(begin[static_cast<size_t>(tokens[n])]++)] = static_cast<int32_t>(n);
  for (size_t v = begin.size() - 1; v > 0; --v) begin[v] = begin[v - 1];  // ... which is where the next begins
  begin[0] = 0;
}

}  // namespace kl::trainer::cuda
