#include <lab/stats/paired_t.hpp>

#include <lab/stats/distributions.hpp>
#include <lab/stats/moments.hpp>

#include <algorithm>
#include <cmath>

namespace kl::stats {

Interval t_interval(std::span<const double> differences, double confidence) {
  if (differences.size() < 2)
    return {.estimate = differences.empty() ? NAN : differences[0], .confidence = confidence};
  const double degrees = static_cast<double>(differences.size() - 1);
  return t_interval_at(differences, student_quantile((1 + confidence) / 2, degrees), confidence);
}

Interval t_interval_at(std::span<const double> differences, double critical_t, double confidence) {
  const double centre = mean(differences);
  if (differences.size() < 2) return {.estimate = centre, .confidence = confidence};
  const double half = critical_t * standard_deviation(differences) /
                      std::sqrt(static_cast<double>(differences.size()));
  return {centre, centre - half, centre + half, confidence};
}

TTest t_test(double mean, double sd, int64_t n, double bound) {
  TTest test;
  const double degrees = static_cast<double>(n - 1);
  test.t = (mean - bound) / (sd / std::sqrt(static_cast<double>(n)));
  test.p_below = student_below(test.t, degrees);
  test.p_above = student_above(test.t, degrees);
  test.p_two_sided = 2 * std::min(test.p_below, test.p_above);
  return test;
}

}  // namespace kl::stats
