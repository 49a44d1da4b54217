// What a trace says, whatever tool wrote it: every source becomes this, and analysis sees only this.
// Times are integer nanoseconds of one clock.
#pragma once

#include <lab/trace/intervals.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kl::trace {

// Each distinct text once: a trace repeats few names millions of times.
using NameId = uint32_t;
constexpr NameId kNoName = UINT32_MAX;
class Names {
 public:
  NameId id(std::string_view name);
  const std::string& operator[](NameId id) const { return texts_[id]; }
  size_t size() const { return texts_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::vector<std::string> texts_;
  std::unordered_map<std::string, NameId, Hash, std::equal_to<>> ids_;
};

enum class ActivityKind : uint8_t { kernel, copy, set };
enum class CallKind : uint8_t { launch, sync, copy, other };
enum class RangeKind : uint8_t {
  step,  // of the trainer
  seam,  // "rmsnorm/forward": a call of a seam's operation
  work,  // "matmul/1024x768x256", "trainer/embedding": what else a step does, of that kind
  user,  // anything else
};
std::string_view to_string(ActivityKind kind);
std::string_view to_string(CallKind kind);
std::string_view to_string(RangeKind kind);
// By the name of a runtime's or driver's function ("cudaLaunchKernel_v7000", "hipStreamSynchronize").
CallKind call_kind(std::string_view function);

struct Device {
  int64_t index = 0;
  std::string name;
  bool operator==(const Device&) const = default;
};

struct Stream {
  int64_t device = 0, stream = 0;
  std::string name;
  bool operator==(const Stream&) const = default;
};

constexpr int64_t kNone = -1;

// Threads and processes are numbered as Nsight Systems does: the process in the high bits.
constexpr int64_t thread_number(int64_t pid, int64_t tid) { return pid << 24 | (tid & 0xffffff); }
constexpr int64_t process_of(int64_t thread) { return thread & ~int64_t{0xffffff}; }

struct DeviceActivity {
  ActivityKind kind = ActivityKind::kernel;
  Span span;
  int64_t device = 0, stream = 0;
  NameId name = 0;
  int64_t process = 0;
  int64_t correlation = kNone;  // with the process: the host call that enqueued it
  int64_t graph_node = kNone;
  int64_t bytes = 0;            // of copies and sets; 0: not said
  int64_t range = kNone;        // index of the range that *is* this activity, where host code is the device
  NameId op = kNoName;          // the operator that launched it (aten::mm), where the source says
};

struct HostCall {
  CallKind kind = CallKind::other;
  Span span;
  NameId name = 0;
  int64_t process = 0, thread = 0;
  int64_t correlation = kNone;
};

struct Range {
  RangeKind kind = RangeKind::user;
  Span span;
  NameId name = 0;
  int64_t process = 0, thread = 0;
};

// Time that the tool took from what it watched.
struct Overhead {
  Span span;
  NameId name = 0;
};

// All runs of one kernel or kind of copy together, from reports that say no moments.
struct WorkTotal {
  ActivityKind kind = ActivityKind::kernel;
  NameId name = 0;
  int64_t count = 0, total_ns = 0;
};

// What the source could not say.
enum class GapKind : uint8_t {
  dropped,           // records that the tool lost
  unreadable,        // rows or tables that could not be read
  graph_granular,    // a graph's replay is one item, its kernels are not apart
  no_device_work,    // no kernel at all
  no_host_calls,     // idle time cannot be explained
  no_ranges,         // no steps, no seams
  window_cut,        // ranges or calls that the capture's end cut off
  outside_ranges,    // host code is the device: time outside every range is unknown
  no_timeline,       // sums by kernel, no moments: neither idle time nor overlap is known
};
std::string_view to_string(GapKind kind);
struct Gap {
  GapKind kind = GapKind::unreadable;
  int64_t count = 0;  // of records, where that is known
  std::string what;   // for a person, with the value
  bool operator==(const Gap&) const = default;
};

struct TraceModel {
  std::string format;          // "kernel-lab", "nsys", "kineto" …
  std::string source_version;  // of the tool that wrote it
  std::map<std::string, std::string> metadata;  // the source's own rows
  Names names;
  std::vector<Device> devices;
  std::vector<Stream> streams;
  std::vector<DeviceActivity> activities;
  std::vector<HostCall> calls;
  std::vector<Range> ranges;
  std::vector<Overhead> overheads;
  std::vector<WorkTotal> totals;  // in place of activities, with the gap no_timeline
  std::vector<Gap> gaps;
  // "rmsnorm/forward" by node of a captured graph: a replay runs no host code.
  std::map<int64_t, std::string> graph_nodes;
  // A step is worked on by itself: what lies between two steps belongs to no step (writing events).
  bool steps_are_the_window = false;
  std::optional<Span> chosen;  // of a trace without steps: what its user wants analysed

  std::vector<Range> steps() const;  // ranges of kind step, in their order
  // What is analysed: the steps, each by itself or from the first to the last; without steps, from the
  // first device item to the last.
  Spans window() const;
};

// Where host code is the device: every seam's and other work's range becomes an activity of device 0, and the gap
// `outside_ranges` says that the rest is unknown.
void make_ranges_the_device(TraceModel& model, std::string_view device);

// Unless the source itself said so already.
void add_gap(TraceModel& model, GapKind kind, std::string what, int64_t count = 0);

// Equal in what it says: names by text, and everything in the same order.
bool same(const TraceModel& a, const TraceModel& b);

}  // namespace kl::trace
