// Rule 1: is the candidate's kernel faster? One log ratio per process goes in, a verdict comes out.
#pragma once

#include <lab/stats/interval.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace kl::stats {

inline constexpr int kFewestProcesses = 6;  // below it no 95 % signed-rank interval exists

struct BenchRule {
  double delta = 0.01;             // log units; the difference worth naming
  int processes = 10;              // planned, each with both arms
  int control_processes = 3;       // champion only
  double process_cap_seconds = 5;
  int fewest_blocks = 30;
  int min_processes = kFewestProcesses;  // raising it is allowed; lowering it has no effect

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("delta", self.delta, "difference worth naming, log units");
    v("processes", self.processes, "planned processes with both arms");
    v("control_processes", self.control_processes, "planned champion-only processes");
    v("process_cap_seconds", self.process_cap_seconds, "a process stops measuring at this time");
    v("fewest_blocks", self.fewest_blocks, "ABBA blocks before a process may stop for precision");
    v("min_processes", self.min_processes, "fewer give no verdict");
  }
};
inline constexpr BenchRule kBenchQuick{0.02, 6, 2, 1.0};
inline constexpr BenchRule kBenchNormal{0.01, 10, 3, 5.0};
inline constexpr BenchRule kBenchFull{0.005, 20, 5, 15.0};

// What the harness saw of the clocks. nullopt: could not be read, which blocks nothing.
struct BenchClocks {
  std::optional<bool> cycles_agree;  // log-cycles and log-time tell the same
  std::optional<bool> stable;        // not too many throttled samples
};

struct BenchVerdict {
  Status status = Status::inconclusive;  // improved, regressed, equivalent or inconclusive
  std::string reason;  // of inconclusive: underpowered, noisy, clock-disagrees, unstable-clock, failures
  int processes = 0;   // that gave a number
  int failures = 0;    // that gave none (not finite); the denominator is processes + failures
  double delta = 0;
  double mean_log_ratio = 0;
  double sd = 0;
  double speed_up = 0;  // exp(−mean) − 1
  Interval t_95;
  Interval walsh_95;
  Interval t_90;
  int64_t n_to_decide = 0;  // processes in all; 0 when decided
  std::optional<bool> cycles_agree;
  std::optional<bool> clock_stable;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("status", self.status, "improved, regressed, equivalent or inconclusive");
    v("reason", self.reason, "why it is inconclusive");
    v("processes", self.processes, "processes that gave a log ratio");
    v("failures", self.failures, "processes that gave none; counted, never dropped");
    v("delta", self.delta, "difference worth naming, log units");
    v("mean_log_ratio", self.mean_log_ratio, "mean of log(candidate / champion); negative: faster");
    v("sd", self.sd, "standard deviation between processes, n-1");
    v("speed_up", self.speed_up, "exp(-mean) - 1");
    v("t_95", self.t_95, "95 % t interval: must lie beyond delta to name a difference");
    v("walsh_95", self.walsh_95, "95 % exact signed-rank interval: must agree");
    v("t_90", self.t_90, "90 % t interval: inside delta means equivalent");
    v("n_to_decide", self.n_to_decide, "processes that would decide; 0: decided");
    v("cycles_agree", self.cycles_agree, "log-cycles tell the same as log-time; null: not readable");
    v("clock_stable", self.clock_stable, "few samples were throttled; null: not readable");
  }
};

// `process_log_ratios`: log(candidate / champion) of each process; a process that failed is a NaN.
BenchVerdict decide_bench(std::span<const double> process_log_ratios, const BenchRule& rule,
                          const BenchClocks& clocks = {});

}  // namespace kl::stats
