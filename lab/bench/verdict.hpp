// From raw series to a verdict: pure functions, so that any bench can be judged again from its
// samples file, and the rules can be tested on synthetic series.
#pragma once

#include <lab/bench/series.hpp>
#include <lab/core/record.hpp>
#include <lab/stats/bench_verdict.hpp>

#include <string>
#include <vector>

namespace kl {

// The baseline in the candidate's company against the baseline alone.
struct ControlResult {
  std::string result;     // agree, disturbed, noisy, none
  int processes = 0;
  stats::Interval shift;  // 99.9 %, log(baseline beside the candidate / baseline alone)

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("result", self.result, "agree, disturbed, noisy or none");
    v("processes", self.processes, "processes with the baseline in both places");
    v("shift", self.shift, "log(baseline beside the candidate / baseline alone)");
  }
};

// Does the worker's clock tell what others do? What a call costs beyond the worker's own time, in
// the parent's time and in processor time beyond all threads at work, must be the same for both
// arms; time hidden from the worker's clock shows there.
struct ClockAgreement {
  bool agrees = true;
  bool impossible = false;             // a worker's time longer than the parent's bracket of it
  bool forged = false;                 // impossible, or more time hidden than shown
  double overhead_ns_per_call = 0;     // parent's minus worker's, baseline, median
  stats::Interval hidden_ns_per_call;  // 99 %, the candidate's overhead minus the baseline's
  stats::Interval hidden_processor_ns_per_call;  // 99 %, the same of processor time
  double log_difference = 0;           // log ratio by the parent's clock minus by the worker's

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("agrees", self.agrees, "the worker's clock tells what the parent's does");
    v("impossible", self.impossible, "a worker's time was longer than the parent's bracket");
    v("forged", self.forged, "impossible, or more time hidden than shown");
    v("overhead_ns_per_call", self.overhead_ns_per_call,
      "parent's minus worker's time of a call, baseline, median");
    v("hidden_ns_per_call", self.hidden_ns_per_call,
      "the candidate's overhead minus the baseline's");
    v("hidden_processor_ns_per_call", self.hidden_processor_ns_per_call,
      "the candidate's processor time beyond its own time on all threads, minus the baseline's");
    v("log_difference", self.log_difference,
      "log ratio by the parent's clock minus by the worker's");
  }
};

// One shape by itself, all operations together, cold. Whatever the step's sum says, no shape may
// regress.
struct ShapeReading {
  std::string shape;           // "C=64 N=256"
  bool decides = true;         // part of the step's seam time
  Status status = Status::inconclusive;
  double ratio = 0;            // candidate / baseline
  stats::Interval t95, walsh95;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("shape", self.shape, "length of each named axis");
    v("decides", self.decides, "part of the step's seam time; else timed beside it");
    v("status", self.status, "improved, regressed, equivalent or inconclusive");
    v("ratio", self.ratio, "candidate over baseline, all operations, cold");
    v("t95", self.t95, "paired t interval over processes, log ratio");
    v("walsh95", self.walsh95, "exact signed-rank interval over processes, log ratio");
  }
};
std::vector<ShapeReading> read_shapes(const BenchSamples& samples, const stats::BenchRule& rule);

// Blocks set aside as disturbed, of all that were measured.
double disturbed_share(const BenchSamples& samples);
inline constexpr double kMostDisturbed = 1.0 / 3;  // more: the clock is called unstable

inline constexpr std::string_view kOtherCaseRegressed = "other-case-regressed";

struct SeriesVerdict {
  Status status = Status::inconclusive;
  std::string reason;             // of inconclusive or rejected, and of regressed by one shape
  std::string proof;              // of rejected, and of regressed by one shape
  int64_t samples_needed = 0;     // processes in all; 0: decided, or more of them would not help
  stats::BenchVerdict cold;       // decides
  stats::BenchVerdict warm;       // shown
  ControlResult controls;
  ClockAgreement clocks;
  std::vector<ShapeReading> shapes;
  double candidate_cold_ns = 0, candidate_warm_ns = 0;  // per step; their ratio is the one that decides
  double baseline_cold_ns = 0, baseline_warm_ns = 0;
};

// The log ratio of each process that held both arms; NaN where a process gave no number.
std::vector<double> process_log_ratios(const BenchSamples& samples, bool cold);
ControlResult check_baseline(const BenchSamples& samples, double delta);
ClockAgreement check_clocks(const BenchSamples& samples, double delta);

// STATISTICS rule 1 on the cold series, then what can overturn it: a disturbed baseline rejects;
// clocks that disagree, and a baseline whose shift could itself be the effect, leave it undecided;
// an improvement of the step with a shape that regresses is regressed.
SeriesVerdict judge_series(const BenchSamples& samples, const stats::BenchRule& rule,
                           const stats::BenchClocks& clocks = {});

}  // namespace kl
