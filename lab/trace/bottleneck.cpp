#include <lab/trace/bottleneck.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kl::trace {
namespace {

struct Part {
  std::string_view label, what;
  int64_t ns;
};

// The part of sorted `spans` that can overlap `gap`, so that many gaps do not each walk the whole list.
std::span<const Span> near(const Spans& spans, const Span& gap) {
  const auto first = std::partition_point(spans.begin(), spans.end(), [&](const Span& s) { return s.end <= gap.begin; });
  const auto last = std::partition_point(first, spans.end(), [&](const Span& s) { return s.begin < gap.end; });
  return {first, last};
}

std::string unexplained(const std::vector<Gap>& gaps) {
  for (const Gap& gap : gaps)
    if (gap.kind == GapKind::no_host_calls || gap.kind == GapKind::outside_ranges) return gap.what;
  return "no host call explains it";
}

}  // namespace

std::span<const SplitPart> split_parts() {
  using S = BottleneckSplit;
  static constexpr std::array<SplitPart, 7> parts = {{{"kernel", "kernels", &S::kernel_ns},
                                                      {"exposed_copy", "exposed copies", &S::exposed_copy_ns},
                                                      {"idle_launch", "idle, launching", &S::idle_launch_ns},
                                                      {"idle_sync", "idle, synchronising", &S::idle_sync_ns},
                                                      {"idle_copy", "idle, copying", &S::idle_copy_ns},
                                                      {"idle_host", "idle, host elsewhere", &S::idle_host_ns},
                                                      {"idle_unknown", "idle, unknown", &S::idle_unknown_ns}}};
  return parts;
}

std::string_view words_of_part(std::string_view name) {
  for (const SplitPart& part : split_parts())
    if (part.name == name) return part.words;
  return name;
}

IdleSplitter::IdleSplitter(const TraceModel& model, const Attribution& attributed) : model_(model), attributed_(attributed) {
  for (size_t i = 0; i < model.activities.size(); ++i) items_[model.activities[i].device].push_back(static_cast<uint32_t>(i));
  const auto earlier = [&](uint32_t a, uint32_t b) { return model.activities[a].span.begin < model.activities[b].span.begin; };
  for (auto& [device, items] : items_)
    if (!std::is_sorted(items.begin(), items.end(), earlier)) std::stable_sort(items.begin(), items.end(), earlier);
  std::map<int64_t, std::array<std::vector<Span>, 4>> any;
  for (const HostCall& call : model.calls) any[call.thread][static_cast<size_t>(call.kind)].push_back(call.span);
  for (auto& [thread, kinds] : any)
    for (size_t k = 0; k < kinds.size(); ++k) calls_[thread][k] = union_of(std::move(kinds[k]));
}

void IdleSplitter::add(int64_t device, const Spans& idle, BottleneckSplit& split, BottleneckSplit* in_graphs) const {
  static const std::vector<uint32_t> kNothing;
  const auto found = items_.find(device);
  const std::vector<uint32_t>& items = found == items_.end() ? kNothing : found->second;
  size_t next = 0;
  for (const Span& gap : idle) {
    // The item that ends the gap; behind the last one, the thread that enqueued that.
    next = lower_bound_from(items.size(), next, [&](size_t i) { return model_.activities[items[i]].span.begin < gap.end; });
    const bool ends = next < items.size() && model_.activities[items[next]].span.begin == gap.end;
    const int64_t call = ends ? attributed_.call(items[next]) : next > 0 ? attributed_.call(items[next - 1]) : kNone;
    add(gap, ends, call, split);
    if (in_graphs != nullptr && ends && model_.activities[items[next]].graph_node != kNone) add(gap, ends, call, *in_graphs);
  }
}

void IdleSplitter::add(const Span& gap, bool ends, int64_t call, BottleneckSplit& split) const {
  if (call == kNone) {
    split.idle_unknown_ns += gap.length();
    return;
  }
  const HostCall& launch = model_.calls[static_cast<size_t>(call)];
  // Once the item was being enqueued, the device waited for that alone.
  const int64_t enqueued = ends ? std::clamp(launch.span.begin, gap.begin, gap.end) : gap.end;
  (launch.kind == CallKind::copy ? split.idle_copy_ns : split.idle_launch_ns) += gap.end - enqueued;
  const Span before{gap.begin, enqueued};
  if (before.length() == 0) return;
  Spans rest = {before};
  const auto& kinds = calls_.at(launch.thread);
  const auto take = [&](CallKind kind, int64_t& part) {
    const auto candidates = near(kinds[static_cast<size_t>(kind)], before);
    if (candidates.empty()) return;
    part += length(intersect(rest, candidates));
    rest = subtract(rest, candidates);
  };
  take(CallKind::sync, split.idle_sync_ns);
  take(CallKind::copy, split.idle_copy_ns);
  take(CallKind::launch, split.idle_launch_ns);
  split.idle_host_ns += length(rest);
}

Bottleneck judge(const BottleneckSplit& split, int64_t items, const std::vector<Gap>& gaps) {
  Bottleneck found;
  found.split = split;
  std::array<Part, 6> parts = {{{"kernel-dominated", "kernels", split.kernel_ns},
                                {"copy-bound", "copies", split.exposed_copy_ns + split.idle_copy_ns},
                                {"launch-bound", "waiting for launches", split.idle_launch_ns},
                                {"sync-bound", "idle in synchronise calls", split.idle_sync_ns},
                                {"host-bound", "waiting for the host", split.idle_host_ns},
                                {"", "idle for unknown reasons", split.idle_unknown_ns}}};
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.ns > b.ns; });
  const auto whole = static_cast<double>(std::max<int64_t>(split.whole_ns, 1));
  const auto percent = [whole](int64_t ns) { return 100 * static_cast<double>(ns) / whole; };
  found.margin = static_cast<double>(parts[0].ns - parts[1].ns) / whole;
  const std::string lead = fmt::format("{} {:.1f} %, {} {:.1f} % of the window", parts[0].what, percent(parts[0].ns),
                                       parts[1].what, percent(parts[1].ns));
  const auto timeless = std::find_if(gaps.begin(), gaps.end(), [](const Gap& gap) { return gap.kind == GapKind::no_timeline; });
  if (timeless != gaps.end()) {
    found.label = "insufficient-trace-data";
    found.reason = timeless->what;
  } else if (items < kLeastItems || split.whole_ns <= 0) {
    found.label = "insufficient-trace-data";
    found.reason = fmt::format("{} device items in the window; {} are needed", items, kLeastItems);
  } else if (parts[0].label.empty()) {
    found.label = "insufficient-trace-data";
    found.reason = fmt::format("{}; {}", lead, unexplained(gaps));
  } else if (found.margin < kLeastMargin) {
    found.label = "mixed";
    found.reason = fmt::format("{}: less than {:.0f} points apart", lead, 100 * kLeastMargin);
  } else {
    found.label = parts[0].label;
    found.reason = lead;
  }
  return found;
}

}  // namespace kl::trace
