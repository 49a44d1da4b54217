// How often an event can happen that was seen this rarely.
#pragma once

#include <cstdint>

namespace kl::stats {

// Exact one-sided upper bound of a rate (Clopper & Pearson 1934): 0 of 59 gives 4.95 %.
double rate_upper_bound(int64_t events, int64_t trials, double confidence = 0.95);

}  // namespace kl::stats
