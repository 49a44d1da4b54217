#include <lab/integration/leg.hpp>

#include <lab/stats/moments.hpp>
#include <lab/stats/trimmed_mean.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace kl {
namespace {

constexpr int64_t kLeastSteps = 30;
constexpr double kDefaultSteps = 60;
constexpr double kShortestLegSeconds = 1.5;
constexpr double kLongestLegSeconds = 4.0;
// A neighbour's burst spoils a few turns of one arm, by any amount: half of the turns decide.
constexpr double kTrimmedTurns = 0.25;

}  // namespace

Result<Leg> measure_leg(const TrainerRun& run, Arm arm, int64_t steps, int64_t turn_steps) {
  std::vector<double> durations;
  std::map<std::string, double> seam_ns;
  double tokens = 0, total_ns = 0;
  for (const auto& step : run.steps) {
    if (step.warmup) continue;
    if (!(step.ns > 0))
      return make_error(Status::execution_failed,
                        fmt::format("step {} of a {} leg lasted {} ns", step.index, to_string(arm), step.ns),
                        "the trainer must report a positive `ns` for every step");
    durations.push_back(step.ns);
    total_ns += step.ns;
    tokens += step.tokens;
    for (const auto& [seam, calls] : step.seams) seam_ns[seam] += calls.ns;
  }
  if (static_cast<int64_t>(durations.size()) != steps)
    return make_error(Status::execution_failed,
                      fmt::format("a {} leg timed {} steps; {} were asked for", to_string(arm),
                                  durations.size(), steps),
                      "every timed step needs its own readable `step` event");
  Leg leg;
  leg.arm = to_string(arm);
  leg.step_ns = stats::trimmed_mean(durations, 0.10);
  leg.log_ns = std::log(leg.step_ns);
  leg.tokens_per_s = tokens / (total_ns * 1e-9);
  leg.steps = steps;
  leg.peak_bytes = run.memory_peak_bytes.value_or(0);
  for (const auto& [seam, ns] : seam_ns) leg.seam_share[seam] = ns / total_ns;
  if (turn_steps == 0) return leg;
  for (size_t begin = 0; begin < durations.size(); begin += static_cast<size_t>(turn_steps)) {
    const auto turn = std::span(durations).subspan(
        begin, std::min(static_cast<size_t>(turn_steps), durations.size() - begin));
    leg.turn_ns.push_back(stats::trimmed_mean(turn, 0.10));
    leg.turn_total_ns.push_back(stats::mean(turn));
  }
  return leg;
}

LegRatio leg_ratio(const Leg& baseline, const Leg& candidate) {
  if (baseline.turn_ns.empty() || baseline.turn_ns.size() != candidate.turn_ns.size())
    return {candidate.log_ns - baseline.log_ns,
            std::log(baseline.tokens_per_s / candidate.tokens_per_s)};
  std::vector<double> ratios, totals;
  for (size_t t = 0; t < baseline.turn_ns.size(); ++t) {
    ratios.push_back(std::log(candidate.turn_ns[t] / baseline.turn_ns[t]));
    totals.push_back(std::log(candidate.turn_total_ns[t] / baseline.turn_total_ns[t]));
  }
  return {stats::trimmed_mean(ratios, kTrimmedTurns), stats::mean(totals)};
}

int64_t steps_per_leg(double step_ns, double leg_seconds) {
  const double step_seconds = step_ns * 1e-9;
  if (leg_seconds <= 0)
    leg_seconds = std::clamp(kDefaultSteps * step_seconds, kShortestLegSeconds, kLongestLegSeconds);
  return std::max(kLeastSteps, static_cast<int64_t>(std::ceil(leg_seconds / step_seconds)));
}

}  // namespace kl
