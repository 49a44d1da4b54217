// What changed from one trace to another: shares, the split of the window, families. Of their summaries alone, so
// records on file can be compared without their traces. It says what two traces show, not which program is faster.
#pragma once

#include <lab/trace/summary.hpp>

#include <string>
#include <vector>

namespace kl::trace {

struct TraceSide {
  std::string file, format, source_version;
  int64_t window_ns = 0, steps = 0;
  std::vector<std::string> devices;
  std::string bottleneck;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("file", self.file, "the trace");
    v("format", self.format, "whose trace it is");
    v("source_version", self.source_version, "version of the tool that wrote it");
    v("window_ns", self.window_ns, "length of what was analysed, 0: no timeline");
    v("steps", self.steps, "steps in it, 0: not known");
    v("devices", self.devices, "models of the devices");
    v("bottleneck", self.bottleneck, "its label");
  }
};

// A part of the window, a family or a seam. Times are of one unit (TraceDiff::per); every change is after less before.
struct WorkChange {
  std::string name;
  std::string held_by;  // both, before, after
  double before_ns = 0, after_ns = 0, change_ns = 0;
  double before_share = 0, after_share = 0, change_share = 0;
  double before_count = 0, after_count = 0, change_count = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("name", self.name, "part of the window, family or seam");
    v("held_by", self.held_by, "both, before or after: the traces in which it takes time");
    v("before_ns", self.before_ns, "time in one unit of the first trace");
    v("after_ns", self.after_ns, "time in one unit of the second");
    v("change_ns", self.change_ns, "after less before");
    v("before_share", self.before_share, "of what this list is shares of, first trace");
    v("after_share", self.after_share, "of the same, second trace");
    v("change_share", self.change_share, "after less before");
    v("before_count", self.before_count, "kernels in one unit of the first trace; 0 for parts");
    v("after_count", self.after_count, "kernels in one unit of the second");
    v("change_count", self.change_count, "after less before");
  }
};

struct TraceDiff {
  std::string per;  // step, window, report
  TraceSide before, after;
  double before_ns = 0, after_ns = 0, change_ns = 0;
  std::vector<WorkChange> parts, families, seams;
  std::vector<std::string> notes;
  std::vector<std::string> grew, shrank;
  std::string verdict;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("per", self.per, "unit of all times: step where both have steps, else window; report: one has no timeline");
    v("before", self.before, "the first trace");
    v("after", self.after, "the second trace");
    v("before_ns", self.before_ns, "length of the unit in the first trace, 0: no timeline");
    v("after_ns", self.after_ns, "length of the unit in the second");
    v("change_ns", self.change_ns, "after less before");
    v("parts", self.parts, "of the window, all devices together: shares are of devices times window");
    v("families", self.families, "sums of kernels by family, the largest change first: shares are of the sum over all kernels");
    v("seams", self.seams, "unions of kernels by seam, the largest change first: shares are of the window");
    v("notes", self.notes, "why the two are not alike: formats, devices, windows, what a source could not say");
    v("grew", self.grew, "what takes more, the most first");
    v("shrank", self.shrank, "what takes less, the most first");
    v("verdict", self.verdict, "in one sentence");
  }
};

// Changes below this share of the unit (in percentage points where units cannot be compared) are in the lists and not in
// the verdict: traces of one program differ by as much.
inline constexpr double kLeastChange = 0.005;

TraceDiff diff_summaries(const Summary& before, const Summary& after);

// `kernel-lab trace diff`.
struct TraceDiffRecord : RecordHeader {
  static constexpr std::string_view kSchema = "trace-diff";
  TraceDiff diff;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    TraceDiff::describe(self.diff, v);
  }
};

}  // namespace kl::trace
