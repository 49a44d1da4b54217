// The number of one training leg: a mean that a few stalled steps cannot move.
#pragma once

#include <span>

namespace kl::stats {

// Drops floor(fraction * n) samples at each end and averages the rest; 0 <= fraction < 0.5.
// NaN of none.
double trimmed_mean(std::span<const double> samples, double fraction = 0.10);

}  // namespace kl::stats
