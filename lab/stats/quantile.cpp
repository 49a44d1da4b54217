#include <lab/stats/quantile.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kl::stats {

namespace {

double interpolated(std::vector<double> samples, double p) {
  const double h = static_cast<double>(samples.size() - 1) * p;
  const auto lower = static_cast<std::ptrdiff_t>(std::floor(h));
  const auto at = samples.begin() + lower;
  std::nth_element(samples.begin(), at, samples.end());
  const double fraction = h - std::floor(h);
  if (fraction == 0) return *at;
  return *at + fraction * (*std::min_element(at + 1, samples.end()) - *at);
}

}  // namespace

Result<double> quantile(std::span<const double> samples, double p) {
  if (!(p > 0 && p < 1))
    return make_error(Status::usage, fmt::format("quantile {} is outside (0, 1)", p),
                      "ask for a p between 0 and 1");
  if (!std::all_of(samples.begin(), samples.end(), [](double x) { return std::isfinite(x); }))
    return make_error(Status::error, "a sample is not finite",
                      "count failed measurements apart instead of among the samples");
  // The rounding of 1 - p must not push n = 100 under the bar of p99.
  const double needed = std::ceil(1 / std::min(p, 1 - p) - 1e-6);
  if (samples.empty() || (p != 0.5 && static_cast<double>(samples.size()) < needed))
    return make_error(Status::error, fmt::format("p{:g} of {} samples", 100 * p, samples.size()),
                      fmt::format("take at least {:.0f} samples", needed));
  return interpolated({samples.begin(), samples.end()}, p);
}

double median(std::span<const double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  return interpolated({samples.begin(), samples.end()}, 0.5);
}

}  // namespace kl::stats
