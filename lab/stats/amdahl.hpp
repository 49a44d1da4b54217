// Does the gain of the kernel explain the gain of the training step?
#pragma once

#include <lab/stats/interval.hpp>

namespace kl::stats {

struct AmdahlCheck {
  double predicted_log_ratio = 0;  // log(1 − share · (1 − bench ratio))
  double predicted_low = 0;        // from the ends of the bench interval
  double predicted_high = 0;
  double seen_log_ratio = 0;
  double factor = 0;   // seen / predicted; negative: opposite directions
  bool warn = false;   // off by more than 2×, and by more than the seen interval is wide

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("predicted_log_ratio", self.predicted_log_ratio, "of the step, from bench gain and seam share");
    v("predicted_low", self.predicted_low, "from the lower end of the bench interval");
    v("predicted_high", self.predicted_high, "from the upper end of the bench interval");
    v("seen_log_ratio", self.seen_log_ratio, "of the step, from the pairs");
    v("factor", self.factor, "seen / predicted; negative: opposite directions");
    v("warn", self.warn, "off by more than a factor of 2 and by more than the noise");
  }
};

// Log ratio of the step when a seam with this share of it (0 … 1) changes by seam_log_ratio.
double amdahl_log_ratio(double seam_log_ratio, double share);

AmdahlCheck amdahl_check(const Interval& bench, double share, const Interval& seen);

}  // namespace kl::stats
