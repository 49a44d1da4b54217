// What a trace's timing offers beyond faster kernels: idle time that launching causes, and copies that nothing hides.
#pragma once

#include <lab/core/record.hpp>
#include <lab/trace/bottleneck.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kl::trace {

// Of all devices together. They overlap: a captured step has no gaps left that fusion could close.
struct Opportunity {
  std::string name;
  int64_t gain_ns = 0;
  double share = 0;
  int64_t runs = 0, kernels = 0, kernel_ns = 0;
  std::string reason;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("name", self.name, "launch_fusion, whole_step_capture or data_movement");
    v("gain_ns", self.gain_ns, "device time that it could save at most");
    v("share", self.share, "gain_ns as a share of devices times window");
    v("runs", self.runs, "of launch_fusion: runs of short pointwise kernels");
    v("kernels", self.kernels, "kernels in them");
    v("kernel_ns", self.kernel_ns, "sum of their durations");
    v("reason", self.reason, "what the trace shows");
  }
};

inline constexpr std::string_view kLaunchFusion = "launch_fusion";
inline constexpr std::string_view kWholeStepCapture = "whole_step_capture";
inline constexpr std::string_view kDataMovement = "data_movement";

// Two kernels in a row on a stream belong to one run if both are pointwise (elementwise work, activations, copies made by
// kernels) and the gap between them is at least as long as either: launching them costs more than running them. A gap beyond
// kMostGapNs is no launch: a launch call takes microseconds, an operator of an eager framework some tens.
inline constexpr int64_t kMostGapNs = 100'000;
// Two may stand side by side by chance; three are a chain.
inline constexpr int64_t kLeastRun = 3;

// Fed device by device, with what the summary knows already.
class OpportunityFinder {
 public:
  OpportunityFinder(const TraceModel& model, const Attribution& attributed, const IdleSplitter& splitter);
  // `window`: what counts; `idle`: of it, where the device did nothing.
  void add_device(int64_t device, const Spans& window, const Spans& idle, int64_t exposed_copy_ns);
  // The largest first; none that gains nothing, and none at all where idle time is unknown time. `split`: of all devices;
  // `in_graphs`: of its idle time, what ends with a kernel of a captured graph.
  std::vector<Opportunity> found(const BottleneckSplit& split, const BottleneckSplit& in_graphs) const;

 private:
  const TraceModel& model_;
  const IdleSplitter& splitter_;
  std::vector<size_t> order_;    // activities by their begins; empty: they are in order
  std::vector<char> pointwise_;  // by activity
  Opportunity fusion_;
  BottleneckSplit run_gaps_, run_gaps_in_graphs_;  // idle time in the runs
  int64_t exposed_copy_ns_ = 0;
};

}  // namespace kl::trace
