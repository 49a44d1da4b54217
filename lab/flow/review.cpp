#include <lab/flow/review.hpp>

#include <lab/flow/relevance.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

constexpr int64_t kEnoughSteps = 5;

}  // namespace

AutoReviewRecord auto_review(const TraceProfileRecord& profile) {
  auto record = new_record<AutoReviewRecord>();
  record.engine = profile.engine;
  record.preset = profile.preset;
  record.identity = profile.identity;
  record.trace_profile = profile.output_file;
  if (profile.status != Status::ok || profile.candidates.empty()) {
    record.status = Status::insufficient_trace_data;
    record.reason = profile.reason.empty() ? "the trace-profile ranks no target" : profile.reason;
    record.remedy = profile.remedy.empty() ? "capture the trainer again: kernel-lab capture" : profile.remedy;
    return record;
  }
  record.status = Status::ok;
  const double attributed = std::clamp(profile.summary.covered_share * (1 - profile.summary.unknown_share), 0.0, 1.0);
  const double steps = std::min(1.0, static_cast<double>(profile.summary.steps) / kEnoughSteps);
  record.confidence = std::min(attributed, steps);
  record.confidence_reason = attributed <= steps
                                 ? fmt::format("{:.1f} % of the window is attributed", 100 * attributed)
                                 : fmt::format("{} steps, {} are enough", profile.summary.steps, kEnoughSteps);
  for (const RankedCandidate& c : profile.candidates) {
    record.relevance[c.target] = to_string(relevance_of(c.gain_bound));
    record.findings.push_back(fmt::format("{}: {}, at most {:.2f} % of the step", c.target, record.relevance[c.target], 100 * c.gain_bound));
  }
  const auto& split = profile.summary.bottleneck;
  record.findings.push_back(fmt::format("bottleneck: {} ({})", split.label, split.reason));
  return record;
}

}  // namespace kl
