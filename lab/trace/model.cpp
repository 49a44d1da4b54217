#include <lab/trace/model.hpp>

#include <algorithm>
#include <array>

namespace kl::trace {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <size_t N>
std::string_view nth(const std::array<std::string_view, N>& names, size_t i) {
  return names[std::min(i, N - 1)];
}

}  // namespace

NameId Names::id(std::string_view name) {
  if (const auto it = ids_.find(name); it != ids_.end()) return it->second;
  const auto fresh = static_cast<NameId>(texts_.size());
  texts_.emplace_back(name);
  ids_.emplace(name, fresh);
  return fresh;
}

std::string_view to_string(ActivityKind kind) {
  constexpr std::array<std::string_view, 3> names = {"kernel", "copy", "set"};
  return nth(names, static_cast<size_t>(kind));
}
std::string_view to_string(CallKind kind) {
  constexpr std::array<std::string_view, 4> names = {"launch", "sync", "copy", "other"};
  return nth(names, static_cast<size_t>(kind));
}
std::string_view to_string(RangeKind kind) {
  constexpr std::array<std::string_view, 4> names = {"step", "seam", "work", "user"};
  return nth(names, static_cast<size_t>(kind));
}
std::string_view to_string(GapKind kind) {
  constexpr std::array<std::string_view, 9> names = {"dropped",       "unreadable", "graph-granular", "no-device-work",
                                                     "no-host-calls", "no-ranges",  "window-cut",     "outside-ranges", "no-timeline"};
  return nth(names, static_cast<size_t>(kind));
}

CallKind call_kind(std::string_view function) {
  // Launches first: cudaLaunchHostFunc and cuLaunchKernelEx are, and cudaStreamWaitEvent waits for nothing here.
  if (contains(function, "Launch")) return CallKind::launch;
  if (contains(function, "Synchronize")) return CallKind::sync;
  if (contains(function, "Memcpy") || contains(function, "Memset")) return CallKind::copy;
  return CallKind::other;
}

std::vector<Range> TraceModel::steps() const {
  std::vector<Range> found;
  for (const Range& range : ranges)
    if (range.kind == RangeKind::step) found.push_back(range);
  std::sort(found.begin(), found.end(), [](const Range& a, const Range& b) { return a.span.begin < b.span.begin; });
  return found;
}

Spans TraceModel::window() const {
  std::vector<Span> spans;
  for (const Range& range : ranges)
    if (range.kind == RangeKind::step) spans.push_back(range.span);
  if (!spans.empty() && steps_are_the_window) return union_of(std::move(spans));
  Span whole{INT64_MAX, INT64_MIN};
  const auto reach = [&whole](const Span& span) {
    if (span.length() > 0) whole = {std::min(whole.begin, span.begin), std::max(whole.end, span.end)};
  };
  for (const Span& span : spans) reach(span);
  if (spans.empty())
    for (const DeviceActivity& item : activities) reach(item.span);
  if (whole.length() == 0) return {};
  if (!chosen) return {whole};
  return {{std::max(whole.begin, chosen->begin), std::min(whole.end, chosen->end)}};
}

void make_ranges_the_device(TraceModel& model, std::string_view device) {
  model.devices.push_back({0, std::string(device)});
  for (size_t i = 0; i < model.ranges.size(); ++i) {
    const Range& range = model.ranges[i];
    if (range.kind != RangeKind::seam && range.kind != RangeKind::work) continue;
    DeviceActivity item;
    item.span = range.span;
    item.name = range.name;
    item.process = range.process;
    item.range = static_cast<int64_t>(i);
    model.activities.push_back(item);
  }
  if (!model.activities.empty()) model.streams.push_back({0, 0, "the step's thread"});
  add_gap(model, GapKind::outside_ranges, "host code is the device: what is idle lies outside ranges");
}

void add_gap(TraceModel& model, GapKind kind, std::string what, int64_t count) {
  const auto known = std::find_if(model.gaps.begin(), model.gaps.end(), [&](const Gap& gap) { return gap.kind == kind; });
  if (known == model.gaps.end()) model.gaps.push_back({kind, count, std::move(what)});
}

bool same(const TraceModel& a, const TraceModel& b) {
  const auto equal = [](const auto& x, const auto& y, auto&& item) {
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), item);
  };
  const auto named = [&](NameId x, NameId y) {
    return x == kNoName || y == kNoName ? x == y : a.names[x] == b.names[y];
  };
  return a.format == b.format && a.source_version == b.source_version && a.metadata == b.metadata &&
         a.devices == b.devices && a.streams == b.streams && a.gaps == b.gaps && a.graph_nodes == b.graph_nodes &&
         a.steps_are_the_window == b.steps_are_the_window &&
         equal(a.activities, b.activities,
               [&](const DeviceActivity& x, const DeviceActivity& y) {
                 return x.kind == y.kind && x.span == y.span && x.device == y.device && x.stream == y.stream &&
                        named(x.name, y.name) && x.process == y.process && x.correlation == y.correlation &&
                        x.graph_node == y.graph_node && x.bytes == y.bytes && x.range == y.range && named(x.op, y.op);
               }) &&
         equal(a.calls, b.calls,
               [&](const HostCall& x, const HostCall& y) {
                 return x.kind == y.kind && x.span == y.span && named(x.name, y.name) && x.process == y.process &&
                        x.thread == y.thread && x.correlation == y.correlation;
               }) &&
         equal(a.ranges, b.ranges,
               [&](const Range& x, const Range& y) {
                 return x.kind == y.kind && x.span == y.span && named(x.name, y.name) && x.process == y.process &&
                        x.thread == y.thread;
               }) &&
         equal(a.totals, b.totals,
               [&](const WorkTotal& x, const WorkTotal& y) {
                 return x.kind == y.kind && named(x.name, y.name) && x.count == y.count && x.total_ns == y.total_ns;
               }) &&
         equal(a.overheads, b.overheads,
               [&](const Overhead& x, const Overhead& y) { return x.span == y.span && named(x.name, y.name); });
}

}  // namespace kl::trace
