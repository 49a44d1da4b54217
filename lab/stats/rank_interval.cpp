#include <lab/stats/rank_interval.hpp>

#include <lab/stats/quantile.hpp>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <vector>

namespace kl::stats {

size_t median_rank(size_t n, double confidence) {
  if (n == 0) return 0;
  const boost::math::binomial_distribution<double> heads(static_cast<double>(n), 0.5);
  const double spare = (1 - confidence) / 2;
  const auto fits = [&](size_t k) {
    return k == 0 || boost::math::cdf(heads, static_cast<double>(k - 1)) <= spare;
  };
  size_t low = 0, high = n / 2 + 1;  // fits(low), not fits(high)
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

Interval median_interval(std::span<const double> samples, double confidence) {
  Interval interval{.estimate = median(samples), .confidence = confidence};
  const size_t rank = median_rank(samples.size(), confidence);
  if (rank == 0) return interval;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  interval.low = sorted[rank - 1];
  interval.high = sorted[sorted.size() - rank];
  return interval;
}

}  // namespace kl::stats
