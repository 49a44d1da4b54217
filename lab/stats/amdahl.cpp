#include <lab/stats/amdahl.hpp>

#include <cmath>

namespace kl::stats {

double amdahl_log_ratio(double seam_log_ratio, double share) {
  return std::log1p(share * std::expm1(seam_log_ratio));
}

AmdahlCheck amdahl_check(const Interval& bench, double share, const Interval& seen) {
  constexpr double kFactor = 2;
  AmdahlCheck check;
  check.predicted_log_ratio = amdahl_log_ratio(bench.estimate, share);
  check.predicted_low = amdahl_log_ratio(bench.low, share);
  check.predicted_high = amdahl_log_ratio(bench.high, share);
  check.seen_log_ratio = seen.estimate;
  check.factor = seen.estimate / check.predicted_log_ratio;
  const bool off = !(check.factor >= 1 / kFactor && check.factor <= kFactor);
  const bool explained_by_noise =
      seen.low <= check.predicted_high && seen.high >= check.predicted_low;
  check.warn = off && !explained_by_noise;
  return check;
}

}  // namespace kl::stats
