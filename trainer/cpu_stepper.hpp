// The step on the CPU: the fp32 model, its seams' libraries and the optimiser.
#pragma once

#include <trainer/model.hpp>
#include <trainer/optimiser.hpp>
#include <trainer/stepper.hpp>

namespace kl::trainer {

class CpuStepper : public Stepper {
 public:
  static Result<std::unique_ptr<Stepper>> open(const Config& config, const Layout& layout,
                                               const DatasetFacts& data, const SeamFiles& files);

  Result<StepResult> step(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                          double progress) override;
  Result<StepResult> differentiate(std::span<const int32_t> inputs,
                                   std::span<const int32_t> targets) override;
  Result<std::span<const float>> losses(std::span<const int32_t> inputs,
                                        std::span<const int32_t> targets) override;
  Result<std::span<float>> weights() override { return std::span(weights_); }
  Outcome weights_changed() override { return {}; }
  Result<std::span<const float>> gradients() override { return std::span<const float>(gradients_); }
  Result<OptimiserState> optimiser_state() override { return optimiser_.state(); }
  Outcome optimiser_changed(int64_t updates) override {
    optimiser_.set_steps(updates);
    return {};
  }
  Outcome perturb(const std::string& seam, uint64_t seed) override { return seams_->perturb(seam, seed); }
  std::map<std::string, SeamCounts> counts() const override { return seams_->counts(); }
  const SeamFiles& files() const override { return seams_->files(); }
  int threads() const override { return threads_; }
  int64_t peak_bytes() const override;  // high-water mark of this process's memory
  std::string maths_library() const override;

 private:
  CpuStepper(const Config& config, const Layout& layout, const DatasetFacts& data, std::unique_ptr<SeamSet> seams,
             int threads);
  double accumulate_gradients(std::span<const int32_t> inputs, std::span<const int32_t> targets);

  const Config& config_;
  const int threads_;
  std::unique_ptr<SeamSet> seams_;
  Model<float> model_;
  Optimiser optimiser_;
  std::vector<float, HugePages<float>> weights_, gradients_;
};

}  // namespace kl::trainer
