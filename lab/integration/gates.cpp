#include <lab/integration/gates.hpp>

#include <lab/stats/quantile.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kl {
namespace {

constexpr double kLossLimit = 100;       // where every trainer of the protocol stops
constexpr double kNormFactor = 2;
constexpr double kNormDeviations = 8;
constexpr double kMadToSigma = 1.4826;   // of a normal distribution
constexpr double kFloorFactor = 3;
constexpr double kDivergenceFactor = 2;
constexpr double kLossResolution = 1e-6; // nats: a mean of fp32 losses near 10
constexpr double kMemoryRatio = 1.02;

// The first step whose loss or gradient norm is not a sane number.
std::optional<std::string> insane_step(const LossCurve& curve, const char* arm) {
  for (size_t i = 0; i < curve.loss.size(); ++i) {
    const double loss = curve.loss[i], norm = curve.grad_norm[i];
    if (!std::isfinite(loss) || loss > kLossLimit)
      return fmt::format("{} loss {} at step {}", arm, loss, i);
    if (!std::isfinite(norm)) return fmt::format("{} gradient norm {} at step {}", arm, norm, i);
  }
  return std::nullopt;
}

double median_of(std::span<const int64_t> values) {
  return stats::median(std::vector<double>(values.begin(), values.end()));
}

int64_t total_of(const SeamCalls& calls) {
  int64_t total = 0;
  for (const auto& [operation, count] : calls) total += count;
  return total;
}

// An operation that is not named was not called.
bool same_calls(const SeamCalls& a, const SeamCalls& b) {
  const auto covers = [](const SeamCalls& in, const SeamCalls& of) {
    return std::all_of(of.begin(), of.end(), [&](const auto& named) {
      const auto it = in.find(named.first);
      return named.second == (it == in.end() ? 0 : it->second);
    });
  };
  return covers(a, b) && covers(b, a);
}

// "9 forward and 9 backward calls"
std::string calls_text(const SeamCalls& calls) {
  std::vector<std::string> parts;
  // "forward" before "backward", as a step calls them
  for (auto it = calls.rbegin(); it != calls.rend(); ++it)
    if (it->second != 0) parts.push_back(fmt::format("{} {}", it->second, it->first));
  return parts.empty() ? "no calls" : fmt::format("{} calls", fmt::join(parts, " and "));
}

}  // namespace

Gate finite_and_tame(std::span<const LossCurve> baseline, std::span<const LossCurve> candidate) {
  Gate gate;
  std::vector<double> logs;
  double largest = 0;
  for (const auto& curve : baseline)
    for (const double norm : curve.grad_norm)
      if (std::isfinite(norm) && norm > 0) {
        logs.push_back(std::log(norm));
        largest = std::max(largest, norm);
      }
  if (logs.empty() || candidate.empty()) {
    gate.text = "no gradient norms were reported";
    return gate;
  }
  gate.ran = true;
  for (const auto& curve : candidate)
    if (auto broken = insane_step(curve, "candidate")) {
      gate.text = *broken;
      gate.seen = std::nan("");
      return gate;
    }
  const double centre = stats::median(logs);
  std::vector<double> deviations;
  for (const double x : logs) deviations.push_back(std::fabs(x - centre));
  const double spread = kMadToSigma * stats::median(deviations);
  gate.allowed = std::max(kNormFactor * largest, std::exp(centre + kNormDeviations * spread));
  size_t worst_step = 0;
  for (const auto& curve : candidate)
    for (size_t i = 0; i < curve.grad_norm.size(); ++i)
      if (curve.grad_norm[i] > gate.seen) {
        gate.seen = curve.grad_norm[i];
        worst_step = i;
      }
  gate.passed = gate.seen <= gate.allowed;
  gate.text = fmt::format("largest gradient norm {:.4g} at step {}; the baseline's fence is {:.4g}",
                          gate.seen, worst_step, gate.allowed);
  return gate;
}

ReplayTolerance replay_tolerance(std::string_view dtype) {
  if (dtype == "bf16" || dtype == "f16") return {1e-4, 1e-3, 4.5e-2};
  return {};
}

Gate same_loss_and_gradient(std::span<const ReplayPoint> points, const ReplayTolerance& tolerance) {
  Gate gate;
  if (points.empty()) {
    gate.text = "nothing was replayed";
    return gate;
  }
  gate.ran = true;
  double floor = 0;
  for (const auto& p : points) floor = std::max(floor, std::fabs(p.loss_repeat - p.loss_baseline));
  gate.allowed = std::max(kFloorFactor * floor, tolerance.loss_nats);
  double worst_defect = 0, worst_norm = 0;
  for (const auto& p : points) {
    const auto where = fmt::format("weights of step {}, batch {}", p.step, p.batch);
    const double difference = std::fabs(p.loss_candidate - p.loss_baseline);
    // Written so that a NaN fails.
    if (!(difference <= gate.allowed)) {
      gate.seen = difference;
      gate.text = fmt::format("loss differs by {:.3g} nats ({:.9g} against {:.9g}) at {}; {:.3g} is allowed",
                              difference, p.loss_candidate, p.loss_baseline, where, gate.allowed);
      return gate;
    }
    if (!(1 - p.cosine <= tolerance.cosine_defect)) {
      gate.seen = 1 - p.cosine;
      gate.allowed = tolerance.cosine_defect;
      gate.text = fmt::format("gradient cosine is 1 - {:.3g} at {}; 1 - {:.3g} is allowed",
                              1 - p.cosine, where, tolerance.cosine_defect);
      return gate;
    }
    const double norm = std::fabs(std::log(p.norm_ratio));
    if (!(norm <= tolerance.norm_log)) {
      gate.seen = norm;
      gate.allowed = tolerance.norm_log;
      gate.text = fmt::format("gradient norm is {:.6g} of the baseline's at {}", p.norm_ratio, where);
      return gate;
    }
    gate.seen = std::max(gate.seen, difference);
    worst_defect = std::max(worst_defect, 1 - p.cosine);
    worst_norm = std::max(worst_norm, norm);
  }
  gate.passed = true;
  gate.text = fmt::format(
      "{} replays: loss within {:.2g} nats ({:.2g} allowed), cosine within {:.2g} of 1, norm within {:.2g}",
      points.size(), gate.seen, gate.allowed, worst_defect, worst_norm);
  return gate;
}

double divergence(const LossCurve& a, const LossCurve& b, int64_t steps) {
  const size_t n = std::min({a.loss.size(), b.loss.size(), static_cast<size_t>(std::max<int64_t>(steps, 0))});
  if (n == 0) return std::nan("");
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += (a.loss[i] - b.loss[i]) * (a.loss[i] - b.loss[i]);
  return std::sqrt(sum / static_cast<double>(n));
}

Gate bounded_divergence(double candidate, std::span<const double> perturbed, double repeat,
                        std::optional<double> reference) {
  Gate gate;
  double largest = 0;
  for (const double d : perturbed) largest = std::max(largest, d);
  if (perturbed.empty() || !(largest > repeat)) {
    gate.text = "the trainer did not perturb the seam: no divergence to compare with";
    return gate;
  }
  gate.ran = true;
  gate.seen = candidate;
  gate.allowed = std::max({kDivergenceFactor * std::max(largest, reference.value_or(0)),
                           kFloorFactor * repeat, kLossResolution});
  gate.passed = candidate <= gate.allowed;
  gate.text = fmt::format(
      "loss curves part by {:.3g} nats (rms); one unit in the last place parts them by {:.3g}{}, twice that is allowed",
      candidate, largest,
      reference ? fmt::format(", the plain reference by {:.3g}", *reference) : std::string());
  return gate;
}

Gate candidate_ran(const TrainerRun& run, std::string_view seam_name, const SeamLibrary& candidate,
                   const SeamCalls& calls_per_step, int64_t steps) {
  Gate gate;
  gate.ran = true;
  const std::string seam(seam_name);
  SeamCalls expected = calls_per_step;
  for (auto& [operation, calls] : expected) calls *= steps;
  gate.allowed = static_cast<double>(total_of(expected));
  if (gate.allowed == 0) {
    gate.text = "the trainer does not say how often a step calls " + seam;
    return gate;
  }
  if (!run.start || !run.start->libraries.contains(seam)) {
    gate.text = "the trainer did not say which library it loaded for " + seam;
    return gate;
  }
  const auto& loaded = run.start->libraries.at(seam);
  if (loaded.library_hash != candidate.library_hash) {
    gate.text = fmt::format("the trainer loaded library {:.12} for {}; the candidate is {:.12}",
                            loaded.library_hash, seam, candidate.library_hash);
    return gate;
  }
  for (const auto& step : run.steps) {
    const auto it = step.seams.find(seam);
    const SeamCalls calls = it == step.seams.end() ? SeamCalls{} : it->second.calls;
    if (same_calls(calls, calls_per_step)) continue;
    gate.seen = static_cast<double>(total_of(calls));
    gate.allowed = static_cast<double>(total_of(calls_per_step));
    gate.text = fmt::format("step {} made {} of {}; {} were expected", step.index, calls_text(calls),
                            seam, calls_text(calls_per_step));
    return gate;
  }
  const auto it = run.seam_calls.find(seam);
  const SeamCalls total = it == run.seam_calls.end() ? SeamCalls{} : it->second;
  gate.seen = static_cast<double>(total_of(total));
  gate.passed = same_calls(total, expected);
  gate.text = gate.passed ? fmt::format("{} in {} steps, as expected", calls_text(total), steps)
                          : fmt::format("{} made in {} steps; {} were expected", calls_text(total), steps,
                                        calls_text(expected));
  return gate;
}

Gate memory_within(std::span<const int64_t> baseline, std::span<const int64_t> candidate) {
  Gate gate;
  gate.allowed = kMemoryRatio;
  const double before = median_of(baseline);
  const double after = median_of(candidate);
  if (!(before > 0) || !(after > 0)) {
    gate.text = "the trainer did not report its peak memory";
    return gate;
  }
  gate.ran = true;
  gate.seen = after / before;
  gate.passed = gate.seen <= kMemoryRatio;
  gate.text = fmt::format("peak {:.1f} MiB against {:.1f} MiB ({:+.2f} %; +2 % is allowed)",
                          after / 1048576, before / 1048576, 100 * (gate.seen - 1));
  return gate;
}

}  // namespace kl
