// A training session: model, optimiser, data and seams, stepped one optimiser step at a time.
#pragma once

#include <trainer/adamw.hpp>
#include <trainer/dataset.hpp>
#include <trainer/model.hpp>
#include <trainer/seam_set.hpp>

namespace kl::trainer {

struct StepResult {
  int64_t index = 0;
  int64_t ns = 0;       // host clock; the CPU is the device
  double loss = 0;      // mean nats per token over all micro-batches
  double grad_norm = 0;
  bool runaway = false;  // the loss is not finite or above 100: the weights were not updated
  std::map<std::string, SeamCounts> seams;
};

struct Evaluation {
  double val_bpb = 0;   // bits per byte over targets that stand for bytes
  double val_loss = 0;  // mean nats per target
  int64_t bytes = 0;
  int64_t tokens = 0;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const Config& config, Dataset dataset,
                                               const SeamFiles& files);

  // One optimiser step; stops before the update when the loss runs away.
  Result<StepResult> step(double rate_factor);
  // Loss and gradient of the next step's tokens, without an update; gradients() holds it after.
  Result<StepResult> differentiate();
  void skip_batch();     // passes over the next step's tokens
  void restart_tokens();  // the next step's tokens are the first step's again
  Result<Evaluation> evaluate();

  const Config& config() const { return config_; }
  const Layout& layout() const { return layout_; }
  const Dataset& dataset() const { return dataset_; }
  SeamSet& seams() { return *seams_; }
  std::span<float> weights() { return weights_; }
  std::span<float> gradients() { return gradients_; }
  int threads() const { return threads_; }
  // Calls of training steps only; those of evaluation are apart.
  const std::map<std::string, SeamCounts>& step_calls() const { return step_calls_; }
  const std::map<std::string, SeamCounts>& evaluation_calls() const { return evaluation_calls_; }

 private:
  Session(const Config& config, Dataset dataset, std::unique_ptr<SeamSet> seams, int threads);
  void next_batch();
  double accumulate_gradients();  // over all micro-batches; the mean loss

  const Config config_;
  const Dataset dataset_;
  const Layout layout_;
  const int threads_;
  std::unique_ptr<SeamSet> seams_;
  Model<float> model_;
  AdamW optimiser_;
  RowPacker packer_;
  std::vector<float> weights_, gradients_;
  std::vector<int32_t> inputs_, targets_;  // of a step: accumulation x N
  std::map<std::string, SeamCounts> step_calls_, evaluation_calls_;
  int64_t index_ = 0;
};

// High-water mark of this process's memory.
int64_t peak_memory_bytes();

}  // namespace kl::trainer
