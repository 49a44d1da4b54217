// An estimate with the interval around it.
#pragma once

#include <lab/core/record.hpp>

#include <limits>

namespace kl::stats {

// With too few samples for the confidence asked, the interval is the whole line: it decides nothing.
struct Interval {
  double estimate = std::numeric_limits<double>::quiet_NaN();
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double confidence = 0;

  bool below(double bound) const { return high < bound; }
  bool above(double bound) const { return low > bound; }
  bool inside(double from, double to) const { return low > from && high < to; }
  double width() const { return high - low; }

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("estimate", self.estimate, "point estimate, log ratio unless said otherwise");
    v("low", self.low, "lower end; null: unbounded, too few samples");
    v("high", self.high, "upper end; null: unbounded, too few samples");
    v("confidence", self.confidence, "two-sided confidence");
  }
};

}  // namespace kl::stats
