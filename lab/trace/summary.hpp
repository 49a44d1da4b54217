// The summary of a trace: what it holds, what it lacks, where the time went.
#pragma once

#include <lab/core/record.hpp>
#include <lab/trace/opportunity.hpp>

namespace kl::trace {

struct DeviceSummary {
  int64_t index = 0;
  std::string name;
  int64_t kernels = 0, kernel_sum_ns = 0, kernel_union_ns = 0;
  int64_t copies = 0, copy_sum_ns = 0, copy_union_ns = 0, exposed_copy_ns = 0;
  int64_t busy_union_ns = 0, span_ns = 0, idle_ns = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("index", self.index, "number of the device in the trace");
    v("name", self.name, "model of the device");
    v("kernels", self.kernels, "kernels inside the window");
    v("kernel_sum_ns", self.kernel_sum_ns, "sum of their durations");
    v("kernel_union_ns", self.kernel_union_ns, "time in which at least one ran");
    v("copies", self.copies, "copies inside the window");
    v("copy_sum_ns", self.copy_sum_ns, "sum of their durations");
    v("copy_union_ns", self.copy_union_ns, "time in which at least one ran");
    v("exposed_copy_ns", self.exposed_copy_ns, "of that, the time in which no kernel ran");
    v("busy_union_ns", self.busy_union_ns, "time in which a kernel, a copy or a set ran");
    v("span_ns", self.span_ns, "from its first item to its last, inside the window");
    v("idle_ns", self.idle_ns, "window less busy_union_ns");
  }
};

struct HostSummary {
  int64_t launches = 0, launch_sum_ns = 0;
  int64_t sync_sum_ns = 0, sync_union_ns = 0, sync_while_busy_ns = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("launches", self.launches, "launch calls inside the window");
    v("launch_sum_ns", self.launch_sum_ns, "sum of their durations");
    v("sync_sum_ns", self.sync_sum_ns, "sum of the synchronise calls' durations");
    v("sync_union_ns", self.sync_union_ns, "time in which at least one thread was in one");
    v("sync_while_busy_ns", self.sync_while_busy_ns, "of that, the time in which a device worked");
  }
};

struct FamilySummary {
  std::string family;
  int64_t kernel_sum_ns = 0, kernel_union_ns = 0;
  double share = 0;
  std::optional<double> window_share;
  int64_t count = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("family", self.family, "kind of work, or unknown");
    v("kernel_sum_ns", self.kernel_sum_ns, "sum of its kernels' durations");
    v("kernel_union_ns", self.kernel_union_ns, "time in which at least one of them ran, device by device");
    v("share", self.share, "of the sum over all kernels");
    v("window_share", self.window_share, "kernel_union_ns as a share of devices times window; null: the source has no timeline");
    v("count", self.count, "kernels");
  }
};

// Of a seam's operations, or of other named work ("matmul").
struct SeamSummary {
  std::string seam;
  std::map<std::string, int64_t> calls;  // by operation, over the window
  int64_t kernel_sum_ns = 0, kernel_union_ns = 0;
  double share = 0;
  std::string rule;
  double confidence = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("seam", self.seam, "seam, or other named work");
    v("calls", self.calls, "kernels by operation, inside the window");
    v("kernel_sum_ns", self.kernel_sum_ns, "sum of its kernels' durations");
    v("kernel_union_ns", self.kernel_union_ns, "time in which at least one of them ran");
    v("share", self.share, "kernel_union_ns as a share of the window");
    v("rule", self.rule, "how its kernels are known: range or graph-node");
    v("confidence", self.confidence, "of that rule");
  }
};

struct KernelSummary {
  std::string name, normalised, family, rule;
  double confidence = 0;
  int64_t count = 0, total_ns = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("name", self.name, "as the trace spells it");
    v("normalised", self.normalised, "without what differs from tool to tool");
    v("family", self.family, "kind of work, or unknown");
    v("rule", self.rule, "how the family is known: range, graph-node, operator:WHICH, name:WHICH or none");
    v("confidence", self.confidence, "of that rule");
    v("count", self.count, "how often it ran in the window");
    v("total_ns", self.total_ns, "sum of its durations");
  }
};

struct GapSummary {
  std::string gap, what;
  int64_t count = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("gap", self.gap, "what the source could not say");
    v("what", self.what, "for a person");
    v("count", self.count, "of records, 0: not counted");
  }
};

struct Summary {
  std::string format, source_version;
  std::vector<GapSummary> gaps;
  std::string window;
  int64_t window_ns = 0, steps = 0;
  std::vector<DeviceSummary> devices;
  HostSummary host;
  std::vector<FamilySummary> families;
  double unknown_share = 0;
  std::vector<SeamSummary> seams;  // the largest first
  double covered_share = 0;
  Bottleneck bottleneck;
  std::vector<Opportunity> opportunities;  // the largest first
  std::vector<KernelSummary> kernels;  // if asked for; the longest first

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("format", self.format, "whose trace it is");
    v("source_version", self.source_version, "version of the tool that wrote it");
    v("gaps", self.gaps, "what the source could not say");
    v("window", self.window, "the part that was chosen with --window, or empty");
    v("window_ns", self.window_ns, "length of what was analysed");
    v("steps", self.steps, "steps in it");
    v("devices", self.devices, "unions and sums, device by device");
    v("host", self.host, "calls of the host, all threads");
    v("families", self.families, "the longest first");
    v("unknown_share", self.unknown_share, "share of the kernels' time whose family is unknown");
    v("seams", self.seams, "by seam and other named work, the longest first");
    v("covered_share", self.covered_share, "share of the window in which a device worked, all devices");
    v("bottleneck", self.bottleneck, "what the window's time went to");
    v("opportunities", self.opportunities, "what the timing offers beyond faster kernels, the largest first");
    v("kernels", self.kernels, "by name, the longest first; empty unless asked for");
  }
};

Summary summarise(const TraceModel& model, bool with_kernels = false);

// `kernel-lab trace summary`.
struct SummaryRecord : RecordHeader {
  static constexpr std::string_view kSchema = "trace-summary";
  std::string file;
  Summary summary;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("file", self.file, "the trace");
    Summary::describe(self.summary, v);
  }
};

// `kernel-lab trace import`.
struct ImportRecord : RecordHeader {
  static constexpr std::string_view kSchema = "trace-import";
  std::string file, imported, format, source_version;
  int64_t devices = 0, kernels = 0, copies = 0, sets = 0, calls = 0, ranges = 0, steps = 0, totals = 0;
  std::vector<GapSummary> gaps;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("file", self.file, "the trace");
    v("imported", self.imported, "what was written");
    v("format", self.format, "whose trace it is");
    v("source_version", self.source_version, "version of the tool that wrote it");
    v("devices", self.devices, "devices that worked");
    v("kernels", self.kernels, "kernels on them");
    v("copies", self.copies, "copies");
    v("sets", self.sets, "memory sets");
    v("calls", self.calls, "calls of the host");
    v("ranges", self.ranges, "ranges, steps among them");
    v("steps", self.steps, "steps");
    v("totals", self.totals, "kernels of which only sums are known");
    v("gaps", self.gaps, "what the source could not say");
  }
};
ImportRecord describe_import(const TraceModel& model);

// `kernel-lab trace export`.
struct ExportRecord : RecordHeader {
  static constexpr std::string_view kSchema = "trace-export";
  std::string file, exported;
  int64_t events = 0, bytes = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("file", self.file, "the trace");
    v("exported", self.exported, "what was written");
    v("events", self.events, "items, ranges, calls and overheads in it");
    v("bytes", self.bytes, "its size");
  }
};

}  // namespace kl::trace
