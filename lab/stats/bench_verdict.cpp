#include <lab/stats/bench_verdict.hpp>

#include <lab/stats/moments.hpp>
#include <lab/stats/paired_t.hpp>
#include <lab/stats/sample_size.hpp>
#include <lab/stats/signed_rank.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace kl::stats {

namespace {

// The first thing that keeps these processes from deciding; empty when nothing does.
std::string why_undecidable(const BenchVerdict& verdict, const BenchRule& rule) {
  if (verdict.clock_stable == false) return "unstable-clock";
  if (verdict.cycles_agree == false) return "clock-disagrees";
  if (verdict.failures > 0) return "failures";
  if (verdict.processes < std::max(rule.min_processes, kFewestProcesses)) return "underpowered";
  return {};
}

Status reading_of(const BenchVerdict& verdict) {
  const double delta = verdict.delta;
  if (verdict.t_95.below(-delta) && verdict.walsh_95.below(-delta)) return Status::improved;
  if (verdict.t_95.above(delta) && verdict.walsh_95.above(delta)) return Status::regressed;
  if (verdict.t_90.inside(-delta, delta)) return Status::equivalent;
  return Status::inconclusive;
}

}  // namespace

BenchVerdict decide_bench(std::span<const double> process_log_ratios, const BenchRule& rule,
                          const BenchClocks& clocks) {
  std::vector<double> ratios;
  for (const double ratio : process_log_ratios)
    if (std::isfinite(ratio)) ratios.push_back(ratio);

  BenchVerdict verdict;
  verdict.processes = static_cast<int>(ratios.size());
  verdict.failures = static_cast<int>(process_log_ratios.size() - ratios.size());
  verdict.delta = rule.delta;
  verdict.cycles_agree = clocks.cycles_agree;
  verdict.clock_stable = clocks.stable;
  verdict.mean_log_ratio = mean(ratios);
  verdict.sd = standard_deviation(ratios);
  verdict.speed_up = std::expm1(-verdict.mean_log_ratio);
  verdict.t_95 = t_interval(ratios, 0.95);
  verdict.walsh_95 = walsh_interval(ratios, 0.95);
  verdict.t_90 = t_interval(ratios, 0.90);

  verdict.reason = why_undecidable(verdict, rule);
  if (verdict.reason.empty()) {
    verdict.status = reading_of(verdict);
    // Noisy: the scatter is so wide that no mean at all could have come out equivalent.
    if (verdict.status == Status::inconclusive)
      verdict.reason = verdict.t_90.width() / 2 >= rule.delta ? "noisy" : "underpowered";
  }
  if (verdict.status == Status::inconclusive)
    verdict.n_to_decide = samples_to_decide(
        verdict.mean_log_ratio, verdict.sd,
        {.delta = rule.delta, .conclusive_confidence = 0.95, .equivalent_confidence = 0.90,
         .fewest = std::max(rule.min_processes, kFewestProcesses)});
  return verdict;
}

}  // namespace kl::stats
