#include <lab/bench/verdict.hpp>

#include <lab/stats/block_stop.hpp>
#include <lab/stats/moments.hpp>
#include <lab/stats/paired_t.hpp>
#include <lab/stats/pooled_t.hpp>
#include <lab/stats/quantile.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kl {
namespace {

// Scheduling noise of one command: below it the parent's clock cannot tell arms apart.
constexpr double kClockFloorNs = 20'000;
// Beyond this part of the candidate's own time a disagreement is no longer a side effect of how
// many threads it woke or pages it touched.
constexpr double kClockShare = 0.10;

// A gain has to show by the parent's clock too, up to half of it and up to this: what else a kernel
// may wake or leave behind costs less.
constexpr double kUnseenFloorNs = 4'000;

// A rejection is a charge: one in a thousand, not one in twenty.
constexpr double kControlConfidence = 0.999;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double median_log(const std::vector<double>& times) {
  std::vector<double> logs;
  for (const double t : times) logs.push_back(std::log(t));
  return stats::median(logs);
}

std::vector<double> steps_of(const BenchSamples& samples, const ArmSeries& arm) {
  return step_ns(arm.worker_ns, samples.calls_per_step);
}

double log_ratio(const BenchSamples& samples, const std::vector<std::vector<int64_t>>& baseline,
                 const std::vector<std::vector<int64_t>>& candidate) {
  const auto a = step_ns(baseline, samples.calls_per_step);
  const auto b = step_ns(candidate, samples.calls_per_step);
  return a.empty() || b.empty() ? kNaN : stats::process_log_ratio(a, b);
}

// Processor time beyond what `threads` threads use in the worker's time, all calls of a letter;
// what a command costs whoever runs is in it.
std::vector<double> processor_excess(const ArmSeries& arm, int threads) {
  std::vector<double> letters(arm.letters());
  for (size_t slot = 0; slot < arm.worker_ns.size(); ++slot)
    for (size_t i = 0; i < letters.size(); ++i)
      letters[i] +=
          static_cast<double>(arm.processor_ns[slot][i] - threads * arm.worker_ns[slot][i]);
  return letters;
}

// Parent's minus worker's nanoseconds, all calls of one letter together.
std::vector<double> overheads(const ArmSeries& arm) {
  std::vector<double> letters(arm.letters());
  for (size_t slot = 0; slot < arm.worker_ns.size(); ++slot)
    for (size_t i = 0; i < letters.size(); ++i)
      letters[i] += static_cast<double>(arm.parent_ns[slot][i] - arm.worker_ns[slot][i]);
  return letters;
}

std::vector<double> letter_ns(const ArmSeries& arm) {
  return step_ns(arm.worker_ns, std::vector<int64_t>(arm.worker_ns.size(), 1));
}

bool is_impossible(const ArmSeries& arm) {
  for (size_t slot = 0; slot < arm.worker_ns.size(); ++slot)
    for (size_t i = 0; i < arm.worker_ns[slot].size(); ++i)
      if (arm.worker_ns[slot][i] > arm.parent_ns[slot][i] || arm.worker_ns[slot][i] < 0)
        return true;
  return false;
}

// A step of one arm: the geometric mean over the processes that count of each one's median. So the two
// arms' figures have the very ratio that decides, whatever single processes do.
double typical_step(const BenchSamples& samples, ArmSeries ProcessSeries::*arm, ArmSeries ProcessSeries::*other) {
  std::vector<double> logs;
  for (const ProcessSeries& p : samples.processes)
    if (!p.control && (p.*arm).letters() > 0 && (p.*other).letters() > 0)
      logs.push_back(median_log(steps_of(samples, p.*arm)));
  return std::exp(stats::mean(logs));
}

void reject_disturbed(SeriesVerdict& verdict) {
  const stats::Interval& shift = verdict.controls.shift;
  verdict.status = Status::rejected;
  verdict.reason = "baseline-disturbed";
  verdict.proof = fmt::format(
      "beside the candidate the baseline takes {:+.1f} % (99.9 % interval {:+.1f} to {:+.1f} %) of "
      "what it takes alone in {} control processes",
      100 * std::expm1(shift.estimate), 100 * std::expm1(shift.low), 100 * std::expm1(shift.high),
      verdict.controls.processes);
}

void reject_forged(SeriesVerdict& verdict) {
  verdict.status = Status::rejected;
  verdict.reason = "forged-timing";
  verdict.proof = verdict.clocks.impossible
                      ? "a call took longer by the worker's clock than by the parent's around it"
                      : fmt::format(
                            "per call {:.0f} us by the parent's clock and {:.0f} us of "
                            "processor time are missing from the worker's clock",
                            1e-3 * verdict.clocks.hidden_ns_per_call.estimate,
                            1e-3 * verdict.clocks.hidden_processor_ns_per_call.estimate);
}

void leave_undecided(SeriesVerdict& verdict, std::string reason, int64_t samples_needed) {
  verdict.status = Status::inconclusive;
  verdict.reason = std::move(reason);
  verdict.samples_needed = samples_needed;
}

// An improvement of the sum is bought by no shape.
void refuse_regressed_shape(SeriesVerdict& verdict, const stats::BenchRule& rule) {
  for (const ShapeReading& shape : verdict.shapes) {
    if (shape.status != Status::regressed) continue;
    verdict.status = Status::regressed;
    verdict.reason = kOtherCaseRegressed;
    verdict.proof = fmt::format(
        "the step's seam time improves, but at {} ({}) all operations together take {:+.1f} % (95 % "
        "interval {:+.1f} to {:+.1f} %) of the baseline's time, and no case may lose more than {:.1f} %",
        shape.shape, shape.decides ? "a shape of the step" : "a case beside the step",
        100 * (shape.ratio - 1), 100 * std::expm1(shape.t95.low), 100 * std::expm1(shape.t95.high),
        100 * std::expm1(rule.delta));
    return;
  }
}

// The shift may be noise; a verdict stands only if it would be the same with the shift taken out.
void doubt_controls(SeriesVerdict& verdict, const BenchSamples& samples,
                    const stats::BenchRule& rule) {
  std::vector<double> corrected = process_log_ratios(samples, true);
  for (double& ratio : corrected) ratio += verdict.controls.shift.estimate;
  const stats::BenchVerdict other = stats::decide_bench(corrected, rule);
  if (other.status == verdict.status) return;
  leave_undecided(verdict, "noisy",
                  std::max<int64_t>(other.n_to_decide, 2 * static_cast<int64_t>(corrected.size())));
}

}  // namespace

std::vector<double> process_log_ratios(const BenchSamples& samples, bool cold) {
  std::vector<double> ratios;
  for (const ProcessSeries& p : samples.processes)
    if (!p.control)
      ratios.push_back(
          cold ? log_ratio(samples, p.baseline_cold.worker_ns, p.candidate_cold.worker_ns)
               : log_ratio(samples, p.baseline_warm.worker_ns, p.candidate_warm.worker_ns));
  return ratios;
}

std::vector<ShapeReading> read_shapes(const BenchSamples& samples, const stats::BenchRule& rule) {
  std::vector<ShapeReading> readings;
  if (samples.shapes.empty()) return readings;
  const size_t operations = samples.calls_per_step.size() / samples.shapes.size();
  for (size_t s = 0; s < samples.shapes.size(); ++s) {
    std::vector<int64_t> weights(samples.calls_per_step.size());
    std::fill_n(weights.begin() + static_cast<std::ptrdiff_t>(s * operations), operations, 1);
    std::vector<double> ratios;
    for (const ProcessSeries& p : samples.processes) {
      if (p.control) continue;
      const auto a = step_ns(p.baseline_cold.worker_ns, weights);
      const auto b = step_ns(p.candidate_cold.worker_ns, weights);
      ratios.push_back(a.empty() || b.empty() ? kNaN : stats::process_log_ratio(a, b));
    }
    const stats::BenchVerdict verdict = stats::decide_bench(ratios, rule);
    readings.push_back({samples.shapes[s], samples.calls_per_step[s * operations] > 0,
                        verdict.status, std::exp(verdict.mean_log_ratio), verdict.t_95,
                        verdict.walsh_95});
  }
  return readings;
}

double disturbed_share(const BenchSamples& samples) {
  double kept = 0, set_aside = 0;
  for (const ProcessSeries& p : samples.processes) {
    kept += static_cast<double>(blocks_of(p));
    set_aside += static_cast<double>(p.set_aside.size());
  }
  return set_aside > 0 ? set_aside / (kept + set_aside) : 0;
}

ControlResult check_baseline(const BenchSamples& samples, double delta) {
  std::vector<double> beside, alone;
  for (const ProcessSeries& p : samples.processes) {
    std::vector<double> steps = steps_of(samples, p.baseline_cold);
    if (p.control) {
      const auto other = steps_of(samples, p.candidate_cold);
      steps.insert(steps.end(), other.begin(), other.end());
    }
    if (!steps.empty()) (p.control ? alone : beside).push_back(median_log(steps));
  }
  ControlResult check;
  check.processes = static_cast<int>(alone.size());
  check.shift = stats::pooled_t_interval(alone, beside, kControlConfidence).interval;
  if (check.processes == 0)
    check.result = "none";
  else if (check.shift.below(-delta) || check.shift.above(delta))
    check.result = "disturbed";
  else
    check.result = std::fabs(check.shift.estimate) <= delta ? "agree" : "noisy";
  return check;
}

ClockAgreement check_clocks(const BenchSamples& samples, double delta) {
  ClockAgreement check;
  std::vector<double> hidden, hidden_processor, base, candidate, baseline, difference;
  const double calls = static_cast<double>(std::max<size_t>(samples.calls_per_step.size(), 1));
  for (const ProcessSeries& p : samples.processes) {
    if (p.control || p.baseline_cold.letters() == 0 || p.candidate_cold.letters() == 0) continue;
    check.impossible =
        check.impossible || is_impossible(p.baseline_cold) || is_impossible(p.candidate_cold);
    base.push_back(stats::median(overheads(p.baseline_cold)) / calls);
    hidden.push_back(stats::median(overheads(p.candidate_cold)) / calls - base.back());
    // At least so much: as if the candidate had used every thread, and the baseline only one and no less: a negative excess is
    // waiting for a processor that others had.
    hidden_processor.push_back((stats::median(processor_excess(p.candidate_cold, samples.threads)) -
                                std::max(0.0, stats::median(processor_excess(p.baseline_cold, 1)))) /
                               calls);
    candidate.push_back(stats::median(letter_ns(p.candidate_cold)) / calls);
    baseline.push_back(stats::median(letter_ns(p.baseline_cold)) / calls);
    difference.push_back(log_ratio(samples, p.baseline_cold.parent_ns, p.candidate_cold.parent_ns) -
                         log_ratio(samples, p.baseline_cold.worker_ns, p.candidate_cold.worker_ns));
  }
  if (hidden.empty()) return check;
  check.overhead_ns_per_call = stats::median(base);
  check.log_difference = stats::median(difference);
  check.hidden_ns_per_call = stats::t_interval(hidden, 0.99);
  check.hidden_processor_ns_per_call = stats::t_interval(hidden_processor, 0.99);
  const double own = stats::median(candidate);
  const double bound = std::max(kClockFloorNs, std::max(kClockShare, delta) * own);
  const auto hides_more_than = [&](double ns) {
    return check.hidden_ns_per_call.above(ns) || check.hidden_processor_ns_per_call.above(ns);
  };
  // More hidden than shown, and far beyond scheduling: no side effect of an honest kernel.
  check.forged = check.impossible || hides_more_than(std::max(10 * kClockFloorNs, own));
  const double gain = stats::median(baseline) - own;
  const bool unseen =
      gain > 0 && check.hidden_ns_per_call.above(std::max(kUnseenFloorNs, gain / 2));
  check.agrees = !check.forged && !hides_more_than(bound) && !unseen;
  return check;
}

SeriesVerdict judge_series(const BenchSamples& samples, const stats::BenchRule& rule,
                           const stats::BenchClocks& given) {
  SeriesVerdict verdict;
  stats::BenchClocks clocks = given;
  if (disturbed_share(samples) > kMostDisturbed) clocks.stable = false;
  verdict.clocks = check_clocks(samples, rule.delta);
  verdict.controls = check_baseline(samples, rule.delta);
  verdict.cold = stats::decide_bench(process_log_ratios(samples, true), rule, clocks);
  verdict.warm = stats::decide_bench(process_log_ratios(samples, false), rule, clocks);
  verdict.candidate_cold_ns = typical_step(samples, &ProcessSeries::candidate_cold, &ProcessSeries::baseline_cold);
  verdict.candidate_warm_ns = typical_step(samples, &ProcessSeries::candidate_warm, &ProcessSeries::baseline_warm);
  verdict.baseline_cold_ns = typical_step(samples, &ProcessSeries::baseline_cold, &ProcessSeries::candidate_cold);
  verdict.baseline_warm_ns = typical_step(samples, &ProcessSeries::baseline_warm, &ProcessSeries::candidate_warm);
  verdict.shapes = read_shapes(samples, rule);
  verdict.status = verdict.cold.status;
  verdict.reason = verdict.cold.reason;
  verdict.samples_needed = verdict.cold.n_to_decide;

  if (verdict.clocks.forged)
    reject_forged(verdict);
  else if (verdict.controls.result == "disturbed")
    reject_disturbed(verdict);
  else if (!verdict.clocks.agrees)
    leave_undecided(verdict, "clock-disagrees", 0);
  else if (verdict.controls.result == "noisy" && verdict.status != Status::inconclusive)
    doubt_controls(verdict, samples, rule);
  if (verdict.status == Status::improved) refuse_regressed_shape(verdict, rule);
  return verdict;
}

}  // namespace kl
