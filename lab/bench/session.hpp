// One bench process: a fresh worker that holds both arms and runs them in ABBA blocks.
//
// A letter runs every shape, forward then backward, once. Cold letters come in two phases as in a
// training step: caches flushed, all forwards; caches flushed, all backwards in reverse. Cases
// beside the step (no calls in it) come last in each phase, where they disturb none of the step's.
// Inputs are rewritten and outputs poisoned before each call, outside the clock; after it random
// rows are compared with the oracle, and now and then the whole. A block during which the machine
// was disturbed is set aside and repeated, at most as often as blocks were planned.
#pragma once

#include <lab/bench/arm.hpp>
#include <lab/bench/series.hpp>
#include <lab/bench/steadiness.hpp>
#include <lab/bench/timed_check.hpp>
#include <lab/stats/block_stop.hpp>
#include <lab/worker/worker.hpp>

#include <filesystem>
#include <optional>

namespace kl {

struct SessionSetup {
  const Target* target = nullptr;
  const std::vector<SeamCase>* cases = nullptr;
  const TimedChecker* checker = nullptr;
  std::filesystem::path baseline, candidate;  // built libraries; equal paths in a control process
  int index = 0;
  bool control = false;
  bool candidate_first = false;
  stats::BlockLimits limits;
  WorkerLimits worker;
  ClockSampler clocks = sample_clocks;
  uint64_t seed = 0;
  double whole_checks = 2;     // expected number in this process, beside the last call of all
};

struct SessionFault {
  Fault fault;
  bool in_baseline = false;    // while the baseline ran
  std::optional<FailingElement> failing;
};

struct SessionResult {
  ProcessSeries series;
  int64_t timed_calls = 0;
  int64_t calls_checked = 0;
  int64_t elements_checked = 0;
  Confinement confinement;
  std::vector<std::string> refusals;  // shapes outside the candidate's domain
  std::string printed;
  std::optional<SessionFault> fault;
};

// An Error only when the oracle cannot judge.
Result<SessionResult> run_session(const SessionSetup& setup);

}  // namespace kl
