#include <lab/stats/trimmed_mean.hpp>

#include <lab/stats/moments.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace kl::stats {

double trimmed_mean(std::span<const double> samples, double fraction) {
  if (!(fraction >= 0 && fraction < 0.5))
    throw std::invalid_argument("trimmed_mean: the fraction is per end, in [0, 0.5)");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  // 0.1 * 30 is a hair above 3 and 0.1 * 10 may be a hair under 1: both mean the whole number.
  const auto cut =
      static_cast<size_t>(std::floor(fraction * static_cast<double>(sorted.size()) + 1e-9));
  return mean(std::span(sorted).subspan(cut, sorted.size() - 2 * cut));
}

}  // namespace kl::stats
