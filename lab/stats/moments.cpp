#include <lab/stats/moments.hpp>

#include <cmath>
#include <limits>

namespace kl::stats {

double mean(std::span<const double> samples) {
  double sum = 0;
  for (const double x : samples) sum += x;
  return sum / static_cast<double>(samples.size());
}

double variance(std::span<const double> samples) {
  if (samples.size() < 2) return std::numeric_limits<double>::quiet_NaN();
  const double centre = mean(samples);
  double squares = 0;
  for (const double x : samples) squares += (x - centre) * (x - centre);
  return squares / static_cast<double>(samples.size() - 1);
}

double standard_deviation(std::span<const double> samples) { return std::sqrt(variance(samples)); }

}  // namespace kl::stats
