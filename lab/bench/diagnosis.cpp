#include <lab/bench/diagnosis.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f} %", 100 * *share) : "unknown";
}

}  // namespace

Diagnosis diagnose(const ResourceShares& s) {
  if (!s.compute && !s.bandwidth) return {"", 0, "neither the rate of operations nor that of bytes is known"};
  const std::string seen = fmt::format("{} of the arithmetic peak, {} of the bandwidth", percent(s.compute), percent(s.bandwidth));
  const double compute = s.compute.value_or(0), bandwidth = s.bandwidth.value_or(0);
  const double highest = std::max(compute, bandwidth);
  const double margin = highest - std::min(compute, bandwidth);
  if (highest >= kBoundShare) {
    const bool both_known = s.compute && s.bandwidth;
    if (both_known && margin < kClearMargin - 1e-9) return {"mixed", 0.4, seen + ": neither clearly above the other"};
    const double confidence = both_known ? std::min(0.95, 0.65 + margin - kClearMargin) : 0.5;
    return {compute > bandwidth ? "compute-bound" : "bandwidth-bound", confidence, seen};
  }
  if (s.busy_threads && *s.busy_threads < 0.5)
    return {"under-occupied", 0.45, fmt::format("{}; {} of the threads' time is used", seen, percent(s.busy_threads))};
  if (s.stalled && *s.stalled >= 0.5)
    return {"latency-bound", 0.45, fmt::format("{}; {} of the cycles are stalled", seen, percent(s.stalled))};
  return {"mixed", 0.3, seen + ": no resource is near its peak"};
}

}  // namespace kl
