// When one bench process has measured enough, and the one number it then yields.
#pragma once

#include <lab/stats/interval.hpp>

#include <span>
#include <string>

namespace kl::stats {

// median(log t_B) − median(log t_A): the number of one process. Times in any one unit, positive.
double process_log_ratio(std::span<const double> baseline_times, std::span<const double> candidate_times);

// The log ratio of one ABBA (or BAAB) block: mean log of the two B minus mean log of the two A.
double block_log_ratio(double a1, double b1, double b2, double a2);

struct BlockLimits {
  double delta = 0.01;
  double cap_seconds = 5;
  int fewest_blocks = 30;
  double confidence = 0.95;
};

struct BlockStop {
  bool stop = false;
  std::string why;  // "precise", "cap", or empty while going on
  Interval median;  // rank interval of the median block log ratio

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("stop", self.stop, "no further block is needed");
    v("why", self.why, "precise, cap, or empty while going on");
    v("median", self.median, "rank interval of the median block log ratio");
  }
};

// Stops at the cap, or from fewest_blocks on once the rank interval is narrower than delta / 4.
// Sorts all blocks: ask every few blocks, not after each of thousands.
BlockStop block_stop(std::span<const double> block_log_ratios, double elapsed_seconds,
                     const BlockLimits& limits);

}  // namespace kl::stats
