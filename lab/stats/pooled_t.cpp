#include <lab/stats/pooled_t.hpp>

#include <lab/stats/distributions.hpp>
#include <lab/stats/moments.hpp>

#include <cmath>

namespace kl::stats {

PooledT pooled_t_interval(std::span<const double> first, std::span<const double> second,
                          double confidence) {
  PooledT answer;
  answer.interval.confidence = confidence;
  answer.interval.estimate = mean(second) - mean(first);
  const double n1 = static_cast<double>(first.size()), n2 = static_cast<double>(second.size());
  answer.sd = std::sqrt(((n1 - 1) * variance(first) + (n2 - 1) * variance(second)) / (n1 + n2 - 2));
  if (first.size() < 2 || second.size() < 2) return answer;
  const double half = student_quantile((1 + confidence) / 2, n1 + n2 - 2) * answer.sd *
                      std::sqrt(1 / n1 + 1 / n2);
  answer.interval.low = answer.interval.estimate - half;
  answer.interval.high = answer.interval.estimate + half;
  return answer;
}

}  // namespace kl::stats
