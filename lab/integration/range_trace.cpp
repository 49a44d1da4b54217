#include <lab/integration/range_trace.hpp>

#include <lab/core/record.hpp>

#include <fmt/format.h>

namespace kl {
namespace {

// The stream does not say which thread it was: there is one.
constexpr int64_t kThread = trace::thread_number(1, 1);

trace::RangeKind kind_of(std::string_view name) {
  return name.starts_with("matmul/") || name.starts_with("trainer/") ? trace::RangeKind::work : trace::RangeKind::seam;
}

}  // namespace

trace::TraceModel range_trace(const TrainerRun& run, std::string_view device) {
  trace::TraceModel model;
  model.format = "kernel-lab";
  model.source_version = kLabVersion;
  model.steps_are_the_window = true;
  int64_t dropped = 0, senseless = 0;
  const auto add = [&](trace::RangeKind kind, std::string_view name, int64_t begin, int64_t end) {
    model.ranges.push_back({kind, {begin, end}, model.names.id(name), trace::process_of(kThread), kThread});
  };
  for (const TrainerRanges& step : run.ranges) {
    dropped += step.dropped;
    if (step.begin_ns < 0 || step.end_ns <= step.begin_ns) {
      ++senseless;
      continue;
    }
    add(trace::RangeKind::step, fmt::format("step {}", step.step), step.begin_ns, step.end_ns);
    for (const TrainerRange& range : step.ranges)
      add(kind_of(step.names[range.name]), step.names[range.name], range.begin_ns, range.begin_ns + range.duration_ns);
  }
  if (dropped > 0) trace::add_gap(model, trace::GapKind::dropped, fmt::format("{} ranges did not reach the trace", dropped), dropped);
  if (senseless > 0)
    trace::add_gap(model, trace::GapKind::unreadable, fmt::format("{} steps have no sensible times", senseless), senseless);
  trace::make_ranges_the_device(model, device);
  return model;
}

}  // namespace kl
