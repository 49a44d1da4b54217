// One leg: one fresh trainer process of one arm, reduced to the numbers that decide.
#pragma once

#include <lab/core/record.hpp>
#include <lab/integration/trainer_run.hpp>
#include <lab/stats/order.hpp>

#include <string>
#include <vector>

namespace kl {

using Arm = stats::Arm;
constexpr std::string_view to_string(Arm arm) {
  return arm == Arm::baseline ? "baseline" : "candidate";
}

struct Leg {
  std::string arm;
  double log_ns = 0;         // log of the 10 % trimmed mean of the timed steps: the leg's number
  double step_ns = 0;        // that mean
  double tokens_per_s = 0;   // over all timed steps, stalls included: the guard
  int64_t steps = 0;
  int64_t peak_bytes = 0;
  std::map<std::string, double> seam_share;  // seam's ns / step's ns
  // Of a leg cut into turns, turn by turn: the trimmed mean of its timed steps, and their mean.
  std::vector<double> turn_ns, turn_total_ns;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("arm", self.arm, "baseline or candidate");
    v("log_ns", self.log_ns, "log of the 10 % trimmed mean of the timed steps' nanoseconds");
    v("step_ns", self.step_ns, "10 % trimmed mean of the timed steps");
    v("tokens_per_s", self.tokens_per_s, "all tokens over all timed steps' time, stalls included");
    v("steps", self.steps, "timed steps");
    v("peak_bytes", self.peak_bytes, "peak memory, 0 if the trainer did not say");
    v("seam_share", self.seam_share, "share of the timed steps spent in each seam");
    v("turn_ns", self.turn_ns, "trimmed mean step of each turn; empty: the leg ran in one piece");
    v("turn_total_ns", self.turn_total_ns, "mean step of each turn, stalls included");
  }
};

// An Error (execution_failed) when the run holds another number of timed steps than asked for, or
// a step without a positive duration: the steps timed must be the steps divided by.
// `turn_steps` cuts the timed steps into turns of that many; 0: one piece.
Result<Leg> measure_leg(const TrainerRun& run, Arm arm, int64_t steps, int64_t turn_steps = 0);

// log(candidate / baseline) of step time: of the legs as wholes, or the mean of the middle half of
// the turns, each with the turn beside it in time. `total` counts every timed step, stalls included.
struct LegRatio {
  double log_ratio = 0;
  double log_total = 0;
};
LegRatio leg_ratio(const Leg& baseline, const Leg& candidate);

// The number of steps of every leg: what `leg_seconds` hold at the baseline's step time, at least
// 30. `leg_seconds` 0: as long as 60 steps take, between 1.5 s and 4 s.
int64_t steps_per_leg(double step_ns, double leg_seconds);

}  // namespace kl
