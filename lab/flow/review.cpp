#include <lab/flow/review.hpp>

#include <lab/flow/external.hpp>
#include <lab/flow/relevance.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

constexpr int64_t kEnoughSteps = 5;
// What shares of families can say of one target at most, and shares of sums without a timeline.
constexpr double kOfFamilies = 0.75, kOfSums = 0.4;

// How far to believe a trace in one respect.
struct Limit {
  double confidence;
  std::string because;
};

Limit least(const std::vector<Limit>& limits) {
  return *std::min_element(limits.begin(), limits.end(), [](const Limit& a, const Limit& b) { return a.confidence < b.confidence; });
}

std::vector<Limit> limits_of(const TraceProfileRecord& profile) {
  const auto& s = profile.summary;
  const double known = std::clamp(1 - s.unknown_share, 0.0, 1.0);
  const double steps = std::min(1.0, static_cast<double>(s.steps) / kEnoughSteps);
  const Limit of_steps{steps, fmt::format("{} step{}, {} are enough", s.steps, s.steps == 1 ? "" : "s", kEnoughSteps)};
  if (profile.attributed_by != "families")
    return {{std::clamp(s.covered_share, 0.0, 1.0) * known, fmt::format("{:.1f} % of the window is attributed", 100 * s.covered_share * known)},
            of_steps};
  // Idle time is in the split: what is not attributed is the kernels' time of unknown family.
  std::vector<Limit> limits = {{known, fmt::format("the family of {:.1f} % of the kernels' time is known", 100 * known)},
                               {kOfFamilies, "shares are of families of kernels, not of seams"}};
  if (s.devices.empty()) limits.push_back({kOfSums, "sums without a timeline: shares are of the kernels' time, not of the step"});
  // A program that marks no steps: start-up may be in the window.
  if (!s.devices.empty()) limits.push_back(s.steps > 0 ? of_steps : Limit{0.5, "no steps are marked: start-up may be in the window"});
  return limits;
}

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
  const Limit limit = least(limits_of(profile));
  record.confidence = limit.confidence;
  record.confidence_reason = limit.because;
  for (const RankedCandidate& c : profile.candidates) {
    record.relevance[c.target] = to_string(relevance_of(c.gain_bound));
    record.findings.push_back(fmt::format("{}: {}, at most {:.2f} % of the step", c.target, record.relevance[c.target], 100 * c.gain_bound));
  }
  const auto& split = profile.summary.bottleneck;
  record.findings.push_back(fmt::format("bottleneck: {} ({})", split.label, split.reason));
  return record;
}

}  // namespace kl
