// Splits rows over the cores this process may use.
#pragma once

#include <cstdint>
#include <functional>

namespace kl {

// work(part, first, end) for contiguous parts of [0, rows), each on a thread of its own; on the
// caller's when there is less than `least` to each. Returns the number of parts.
int parallel_rows(int64_t rows, int64_t least,
                  const std::function<void(int part, int64_t first, int64_t end)>& work);
// Upper bound of the number of parts.
int most_parts();

}  // namespace kl
