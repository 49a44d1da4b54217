// What a window's time went to, and the one word for it. The split is the finding; the word follows.
#pragma once

#include <lab/core/record.hpp>
#include <lab/trace/attribution.hpp>

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace kl::trace {

// Of all devices together: the parts sum to devices × window.
struct BottleneckSplit {
  int64_t kernel_ns = 0;         // union of kernels, device by device
  int64_t exposed_copy_ns = 0;   // copies and sets under no kernel
  int64_t idle_launch_ns = 0;    // idle, the next item's launch under way
  int64_t idle_sync_ns = 0;      // idle, its thread in a synchronise call
  int64_t idle_copy_ns = 0;      // idle, its thread in a copy call
  int64_t idle_host_ns = 0;      // idle, its thread elsewhere
  int64_t idle_unknown_ns = 0;
  int64_t whole_ns = 0;          // devices × window

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("kernel_ns", self.kernel_ns, "union of kernels, device by device");
    v("exposed_copy_ns", self.exposed_copy_ns, "copies and sets while no kernel ran");
    v("idle_launch_ns", self.idle_launch_ns, "idle while the next item's launch was under way");
    v("idle_sync_ns", self.idle_sync_ns, "idle while the launching thread was in a synchronise call");
    v("idle_copy_ns", self.idle_copy_ns, "idle while it was in a copy call");
    v("idle_host_ns", self.idle_host_ns, "idle while it was elsewhere");
    v("idle_unknown_ns", self.idle_unknown_ns, "idle that the trace cannot explain");
    v("whole_ns", self.whole_ns, "what the parts sum to: devices times window");
  }
};

// The parts in the order in which they are told.
struct SplitPart {
  std::string_view name;   // the field without its unit
  std::string_view words;  // for a person
  int64_t BottleneckSplit::*ns;
};
std::span<const SplitPart> split_parts();
// "idle, launching" of "idle_launch".
std::string_view words_of_part(std::string_view name);

struct Bottleneck {
  std::string label;  // launch-bound, sync-bound, copy-bound, host-bound, kernel-dominated, mixed, insufficient-trace-data
  BottleneckSplit split;
  double margin = 0;  // of the largest part over the next, as a share of the whole
  std::string reason;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("label", self.label,
      "launch-bound, sync-bound, copy-bound, host-bound, kernel-dominated, mixed or insufficient-trace-data");
    v("split", self.split, "all parts");
    v("margin", self.margin, "largest part less the next, as a share of the whole");
    v("reason", self.reason, "why this label");
  }
};

inline constexpr double kLeastMargin = 0.10;
inline constexpr int64_t kLeastItems = 100;

// `items`: device items inside the window. The largest part gives the label if it leads by kLeastMargin and there are
// kLeastItems; copies count with the idle time of copy calls. Time that nothing explains leads to no label.
Bottleneck judge(const BottleneckSplit& split, int64_t items, const std::vector<Gap>& gaps);

// Idle time of a device by what the host did meanwhile. `attributed` is attribute(model); both outlive this.
class IdleSplitter {
 public:
  IdleSplitter(const TraceModel& model, const Attribution& attributed);
  // Adds `idle` to `split`; of it, what ends with a kernel of a captured graph, which nothing launches, to `in_graphs`, too.
  void add(int64_t device, const Spans& idle, BottleneckSplit& split, BottleneckSplit* in_graphs = nullptr) const;

 private:
  // `ends`: an item begins where the gap ends; `call` enqueued it, or else the last item before.
  void add(const Span& gap, bool ends, int64_t call, BottleneckSplit& split) const;

  const TraceModel& model_;
  const Attribution& attributed_;
  std::map<int64_t, std::vector<uint32_t>> items_;         // by device: activities in the order of their begins
  std::map<int64_t, std::array<Spans, 4>> calls_;          // by thread, each kind apart
};

}  // namespace kl::trace
