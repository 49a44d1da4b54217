#include <lab/stats/block_stop.hpp>

#include <lab/stats/quantile.hpp>
#include <lab/stats/rank_interval.hpp>

#include <cmath>

namespace kl::stats {

double process_log_ratio(std::span<const double> baseline_times,
                         std::span<const double> candidate_times) {
  const auto median_log = [](std::span<const double> times) {
    std::vector<double> logs;
    logs.reserve(times.size());
    for (const double t : times) logs.push_back(std::log(t));
    return median(logs);
  };
  return median_log(candidate_times) - median_log(baseline_times);
}

double block_log_ratio(double a1, double b1, double b2, double a2) {
  return (std::log(b1) + std::log(b2) - std::log(a1) - std::log(a2)) / 2;
}

BlockStop block_stop(std::span<const double> block_log_ratios, double elapsed_seconds,
                     const BlockLimits& limits) {
  BlockStop answer;
  answer.median = median_interval(block_log_ratios, limits.confidence);
  const bool enough = static_cast<int>(block_log_ratios.size()) >= limits.fewest_blocks;
  if (enough && answer.median.width() < limits.delta / 4)
    answer.why = "precise";
  else if (elapsed_seconds >= limits.cap_seconds)
    answer.why = "cap";
  answer.stop = !answer.why.empty();
  return answer;
}

}  // namespace kl::stats
