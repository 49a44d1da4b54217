// Mean and the unbiased variance.
#pragma once

#include <span>

namespace kl::stats {

double mean(std::span<const double> samples);      // NaN of none
double variance(std::span<const double> samples);  // n-1 in the denominator; NaN under n = 2
double standard_deviation(std::span<const double> samples);

}  // namespace kl::stats
