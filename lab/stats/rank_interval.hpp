// Interval of a median between two order statistics, whatever the distribution.
#pragma once

#include <lab/stats/interval.hpp>

#include <span>

namespace kl::stats {

// The k of [x_(k), x_(n+1-k)]: the largest with 2 P(Binomial(n, 1/2) < k) <= 1 - confidence.
// 0 when n is too small (n < 6 at 95 %).
size_t median_rank(size_t n, double confidence);

// Coverage at least `confidence`; the whole line when median_rank is 0.
Interval median_interval(std::span<const double> samples, double confidence);

}  // namespace kl::stats
