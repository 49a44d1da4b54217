#include <lab/stats/non_inferiority.hpp>

#include <lab/stats/pooled_t.hpp>
#include <lab/stats/sample_size.hpp>

#include <algorithm>
#include <cmath>

namespace kl::stats {

double loss_margin(double kappa, double speed_up_low) {
  if (!(kappa > 0 && speed_up_low > 0)) return 0;
  return std::min(0.005, 0.5 * kappa * std::log1p(speed_up_low));
}

int64_t seeds_per_arm(double sigma, double margin) {
  if (!(margin > 0)) return kMostSamples;
  const double seeds = std::ceil(17.1 * std::pow(sigma / margin, 2) + 1);
  return seeds < static_cast<double>(kMostSamples) ? static_cast<int64_t>(seeds) : kMostSamples;
}

NonInferiority decide_non_inferiority(std::span<const double> baseline_losses,
                                      std::span<const double> candidate_losses, double margin) {
  NonInferiority answer;
  answer.margin = margin;
  const auto pooled = pooled_t_interval(baseline_losses, candidate_losses, 0.90);
  answer.difference = pooled.interval.estimate;
  answer.lower_95 = pooled.interval.low;
  answer.upper_95 = pooled.interval.high;
  answer.non_inferior = pooled.interval.below(margin);
  answer.inferior = pooled.interval.above(margin);
  if (!answer.non_inferior && !answer.inferior)
    answer.seeds_to_decide =
        std::isfinite(pooled.sd) ? std::max<int64_t>(2, seeds_per_arm(pooled.sd, margin)) : 2;
  return answer;
}

}  // namespace kl::stats
