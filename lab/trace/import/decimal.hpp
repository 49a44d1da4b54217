// Numbers as traces write them, exactly: never through double.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kl::trace {

// Decimal text in units of 10^-places: "-1.5e3" with 3 places is -1500000. What lies beyond the places is rounded,
// halves away from zero. Nothing for what is no number or does not fit.
std::optional<int64_t> scaled_decimal(std::string_view text, int places);

}  // namespace kl::trace
