// Student's t on paired differences: the variance has n-1 in its denominator.
#pragma once

#include <lab/stats/interval.hpp>

#include <cstdint>
#include <span>

namespace kl::stats {

// The whole line under n = 2.
Interval t_interval(std::span<const double> differences, double confidence);
// mean ± critical · sd / √n with a critical value of the caller's (group-sequential looks).
Interval t_interval_at(std::span<const double> differences, double critical_t, double confidence);

struct TTest {
  double t = 0;
  double p_below = 1;      // one-sided: true mean < bound
  double p_above = 1;      // one-sided: true mean > bound
  double p_two_sided = 1;
};
TTest t_test(double mean, double sd, int64_t n, double bound = 0);

}  // namespace kl::stats
