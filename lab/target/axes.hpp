// Lengths of a spec's axes.
#pragma once

#include <lab/core/result.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace kl {

// Length of a named axis, a decimal constant, a product such as "N*C", or a sum of those such as
// "N+2*C"; 1 for an empty text.
Result<int64_t> axis_length(std::string_view text, const std::map<std::string, int64_t>& axes);

}  // namespace kl
