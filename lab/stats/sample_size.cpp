#include <lab/stats/sample_size.hpp>

#include <lab/stats/distributions.hpp>

#include <algorithm>
#include <cmath>

namespace kl::stats {

int64_t samples_to_decide(double mean, double sd, const DecisionAsked& asked) {
  const double distance = std::fabs(std::fabs(mean) - asked.delta);
  if (!std::isfinite(distance) || !std::isfinite(sd)) return asked.fewest;
  if (sd == 0) return distance > 0 ? asked.fewest : kMostSamples;
  const double confidence = std::fabs(mean) > asked.delta ? asked.conclusive_confidence
                                                          : asked.equivalent_confidence;
  const double power = normal_quantile(0.9), tail = (1 + confidence) / 2;
  const double ratio = sd / distance;
  const double least = std::pow((normal_quantile(tail) + power) * ratio, 2);
  if (!(least < static_cast<double>(kMostSamples))) return kMostSamples;
  // Student's quantile is above the normal one, so the answer is at or a little above `least`.
  auto n = std::max<int64_t>({asked.fewest, 2, static_cast<int64_t>(std::floor(least))});
  const auto decided = [&](int64_t count) {
    const double critical = student_quantile(tail, static_cast<double>(count - 1));
    return (critical + power) * ratio <= std::sqrt(static_cast<double>(count));
  };
  while (n < kMostSamples && !decided(n)) ++n;
  return n;
}

double power_beyond(double effect, double delta, double sd, int64_t n, double critical_t) {
  if (!(sd > 0)) return effect > delta ? 1 : 0;
  const double root = std::sqrt(static_cast<double>(n));
  return noncentral_student_above(critical_t, static_cast<double>(n - 1),
                                  (effect - delta) * root / sd);
}

}  // namespace kl::stats
