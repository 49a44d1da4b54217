#include <lab/trace/import/finish.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

namespace kl::trace {
namespace {

constexpr int64_t kLargestTime = int64_t{1} << 61;
constexpr int64_t kLongest = int64_t{1} << 50;

}  // namespace

std::optional<Span> sensible_span(std::optional<int64_t> begin, std::optional<int64_t> end) {
  if (!begin || !end || *begin < -kLargestTime || *end > kLargestTime || *end < *begin || *end - *begin > kLongest)
    return std::nullopt;
  return Span{*begin, *end};
}

void add_left_out(TraceModel& model, std::string_view where, int64_t senseless, int64_t read) {
  if (senseless == 0) return;
  model.gaps.push_back({GapKind::unreadable, senseless,
                        fmt::format("{}: {} of {} rows left out (they end before they begin, or hold no sensible times)",
                                    where, senseless, read)});
}

void find_processes(TraceModel& model) {
  if (model.calls.empty()) return;
  const int64_t first = model.calls.front().process;
  const bool one = std::all_of(model.calls.begin(), model.calls.end(), [&](const HostCall& c) { return c.process == first; });
  std::unordered_map<int64_t, int64_t> processes;
  if (!one)
    for (const HostCall& call : model.calls)
      if (call.correlation != kNone) processes.emplace(call.correlation, call.process);
  for (DeviceActivity& item : model.activities) {
    if (item.process != 0) continue;
    const auto found = processes.find(item.correlation);
    item.process = found == processes.end() ? first : found->second;
  }
}

Result<TraceModel> finish(TraceModel model, const std::filesystem::path& path, std::string_view diagnosis) {
  const bool ranges_are_the_device = std::any_of(model.gaps.begin(), model.gaps.end(),
                                                 [](const Gap& gap) { return gap.kind == GapKind::outside_ranges; });
  if (model.activities.empty() && model.totals.empty() && model.calls.empty() && model.ranges.empty()) {
    const std::string damage = model.gaps.empty() ? "" : ": " + model.gaps.front().what;
    return make_error(Status::insufficient_trace_data,
                      fmt::format("{} holds no kernels, no calls and no ranges{}{}", path.string(), damage, diagnosis),
                      "capture it again");
  }
  std::set<int64_t> known;
  for (const Device& device : model.devices) known.insert(device.index);
  std::set<std::pair<int64_t, int64_t>> streams;
  for (const DeviceActivity& item : model.activities) {
    if (known.insert(item.device).second) model.devices.push_back({item.device, ""});
    streams.insert({item.device, item.stream});
  }
  if (model.streams.empty())
    for (const auto& [device, stream] : streams) model.streams.push_back({device, stream, ""});
  if (!model.totals.empty() && model.activities.empty()) {
    add_gap(model, GapKind::no_timeline, "sums by kernel, no moments: neither idle time nor overlap is known");
    return model;
  }
  if (model.activities.empty())
    add_gap(model, GapKind::no_device_work, fmt::format("no kernel, copy or set{}", diagnosis));
  if (model.calls.empty() && !ranges_are_the_device)
    add_gap(model, GapKind::no_host_calls, "no host calls: idle time cannot be explained");
  if (model.ranges.empty()) add_gap(model, GapKind::no_ranges, "no ranges: steps and seams are unknown");
  return model;
}

}  // namespace kl::trace
