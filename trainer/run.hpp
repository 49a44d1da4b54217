// Whole runs: training for a number of steps or seconds, and replays of kept weights.
#pragma once

#include <trainer/events.hpp>
#include <trainer/plan.hpp>
#include <trainer/session.hpp>

#include <functional>

namespace kl::trainer {

struct RunOptions {
  int64_t warmup_steps = 0;
  int64_t steps = 0;      // timed steps; ignored when seconds is given
  double seconds = 0;     // 0: by steps. The schedule follows the clock then.
  bool skip_eval = false;
  std::optional<Snapshots> snapshots;
  std::optional<Turns> turns;  // by steps only
  std::optional<RangePlan> ranges;  // where the CPU is the device
  std::optional<TensorPlan> tensors;  // where the CPU is the device
  std::string save;       // weights after the last step, before evaluation; empty: none
  std::string checkpoint;        // written every so many steps, when the run is stopped, and before evaluation
  int64_t checkpoint_every = 0;  // 0: not while it runs
  double resumed_seconds = 0;    // training before this run's own: the schedule goes on from there
  std::function<bool()> stop;    // asked after each step: true ends the run with a checkpoint
  std::function<void(const Error&)> on_warning;  // a checkpoint that could not be written while the run goes on
  // Called after each step with its share of the whole run.
  std::function<void(const StepResult&, double progress)> on_step;
};

struct RunSummary {
  int64_t steps = 0;
  int64_t tokens = 0;
  int64_t step_ns = 0;  // sum over timed steps
  double last_loss = 0;
  bool stopped = false;  // before its end, with a checkpoint
  std::optional<Evaluation> evaluation;
  int64_t peak_bytes = 0;
};

// Writes start, steps, eval, memory and finish. An error is written as the last event, too.
Result<RunSummary> run_training(Session& session, const RunOptions& options, const EventStream& events);
Outcome run_replay(Session& session, const Replay& replay, const EventStream& events);

// A plan from its file to its last event.
Outcome run_plan(const std::filesystem::path& file);

}  // namespace kl::trainer
