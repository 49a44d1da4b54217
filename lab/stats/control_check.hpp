// Did the candidate's presence change the champion? Processes that ran the champion alone must agree
// with the champion arm of the processes that ran both.
#pragma once

#include <lab/stats/interval.hpp>

#include <span>

namespace kl::stats {

struct ControlCheck {
  Interval shift;          // 95 %, log(champion arm beside the candidate / champion alone)
  bool disturbed = false;  // beyond delta, and by more than the scatter between processes

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("shift", self.shift, "log(champion beside the candidate / champion alone)");
    v("disturbed", self.disturbed, "the shift is beyond delta and beyond the scatter");
  }
};

// Inputs: median log time of the champion in each process.
ControlCheck check_controls(std::span<const double> champion_arm, std::span<const double> controls,
                            double delta);

}  // namespace kl::stats
