// Steps on a GPU: tokens up, the captured graph replayed, loss and norm down.
#pragma once

#include <trainer/cuda/graph.hpp>
#include <trainer/cuda/step.hpp>
#include <trainer/stepper.hpp>

namespace kl::trainer::cuda {

class CudaStepper : public Stepper {
 public:
  static Result<std::unique_ptr<Stepper>> open(const Config& config, const Layout& layout,
                                               const DatasetFacts& data, const SeamFiles& files);

  Result<StepResult> step(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                          double progress) override;
  Result<StepResult> differentiate(std::span<const int32_t> inputs,
                                   std::span<const int32_t> targets) override;
  Result<std::span<const float>> losses(std::span<const int32_t> inputs,
                                        std::span<const int32_t> targets) override;
  Result<std::span<float>> weights() override;
  Outcome weights_changed() override;
  Result<std::span<const float>> gradients() override;
  Result<OptimiserState> optimiser_state() override;
  Outcome optimiser_changed(int64_t updates) override;
  Outcome perturb(const std::string& seam, uint64_t seed) override;
  std::map<std::string, SeamCounts> counts() const override { return counts_; }
  const SeamFiles& files() const override { return seams_->files(); }
  int threads() const override { return 1; }
  int64_t peak_bytes() const override { return arena_.bytes(); }
  std::string maths_library() const override { return products_->version(); }

  // The same step without a graph, for comparison.
  Result<StepResult> step_without_graph(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                                        double progress);
  // Of the step's graph; null before the first step.
  const NodeMap* nodes() const { return step_graph_ ? &step_graph_->nodes() : nullptr; }

 private:
  CudaStepper(const Config& config, const Layout& layout) : config_(config), layout_(layout) {}
  Outcome start(const DatasetFacts& data, const SeamFiles& files);
  void work(bool update);  // everything between host memory and host memory, asynchronous
  void upload();
  Outcome stage(std::span<const int32_t> inputs, std::span<const int32_t> targets, double progress);
  Outcome warm_up();
  Outcome capture_gradient();
  Outcome capture_step();
  Outcome measure_seams();
  Result<StepResult> replay(Graph& graph);
  Result<StepResult> outcome_of_step(int64_t host_ns);
  Outcome finished(const std::string& what);

  const Config& config_;
  const Layout& layout_;
  Stream stream_;
  DeviceArena arena_;
  std::unique_ptr<Seams> seams_;
  std::unique_ptr<Matmul> products_;
  std::unique_ptr<Step> step_;
  std::unique_ptr<Graph> step_graph_, gradient_graph_;  // captured when first used
  Event begin_, end_;
  Pinned<int32_t> tokens_, targets_, begin_of_token_, positions_;
  Pinned<StepScalars> scalars_;
  Pinned<double> loss_, norm_;
  std::vector<float> host_weights_, host_gradients_, host_losses_;
  std::vector<float> host_first_moment_, host_second_moment_;  // when asked for
  std::map<std::string, SeamCounts> counts_;
  std::map<std::string, int64_t> seam_ns_;  // of one step, measured before the first
  int64_t updates_ = 0, steps_ = 0;
};

}  // namespace kl::trainer::cuda
