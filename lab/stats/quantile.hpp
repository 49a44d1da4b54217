// Quantiles, with one definition, and refused where the sample cannot know them.
#pragma once

#include <lab/core/result.hpp>

#include <span>

namespace kl::stats {

// Linear interpolation between order statistics, h = (n-1)p (type 7 of Hyndman & Fan, "Sample
// Quantiles in Statistical Packages", 1996). Error if p is outside (0, 1), if a sample is not
// finite, or if fewer than one sample is expected beyond p: p99 needs n >= 100, p999 n >= 1000.
Result<double> quantile(std::span<const double> samples, double p);

double median(std::span<const double> samples);  // of any n >= 1; NaN of none

}  // namespace kl::stats
