// Student's t for two independent samples with one variance. Never for paired runs.
#pragma once

#include <lab/stats/interval.hpp>

#include <span>

namespace kl::stats {

struct PooledT {
  Interval interval;  // of mean(second) − mean(first); the whole line under two of each
  double sd = 0;      // pooled
};
PooledT pooled_t_interval(std::span<const double> first, std::span<const double> second,
                          double confidence);

}  // namespace kl::stats
