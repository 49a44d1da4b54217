// A training session: data and a stepper, stepped one optimiser step at a time.
#pragma once

#include <trainer/stepper.hpp>

namespace kl::trainer {

struct Evaluation {
  double val_bpb = 0;   // bits per byte over targets that stand for bytes; NaN: none is known to
  double val_loss = 0;  // mean nats per target
  int64_t bytes = 0;
  int64_t tokens = 0;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const Config& config, Dataset dataset,
                                               const SeamFiles& files);

  // One optimiser step at `progress` in [0, 1] of the run; stops before the update when the loss runs
  // away.
  Result<StepResult> step(double progress);
  // Loss and gradient of the next step's tokens, without an update; stepper().gradients() holds it after.
  Result<StepResult> differentiate();
  void skip_batch();     // passes over the next step's tokens
  void restart_tokens();  // the next step's tokens are the first step's again
  void go_to(int64_t step);  // as if so many steps had been done: their tokens are passed over
  // Of the last step: accumulation x N.
  std::span<const int32_t> inputs() const { return inputs_; }
  std::span<const int32_t> targets() const { return targets_; }
  int64_t steps_done() const { return index_; }
  Result<Evaluation> evaluate();

  const Config& config() const { return config_; }
  const Layout& layout() const { return layout_; }
  const Dataset& dataset() const { return dataset_; }
  Stepper& stepper() { return *stepper_; }
  // Calls of training steps only; those of evaluation are apart.
  const std::map<std::string, SeamCounts>& step_calls() const { return step_calls_; }
  const std::map<std::string, SeamCounts>& evaluation_calls() const { return evaluation_calls_; }

 private:
  Session(const Config& config, Dataset dataset);
  void next_batch();

  const Config config_;
  const Dataset dataset_;
  const Layout layout_;
  std::unique_ptr<Stepper> stepper_;
  RowPacker packer_;
  std::vector<int32_t> inputs_, targets_;  // of a step: accumulation x N
  std::map<std::string, SeamCounts> step_calls_, evaluation_calls_;
  int64_t index_ = 0;
};

}  // namespace kl::trainer
