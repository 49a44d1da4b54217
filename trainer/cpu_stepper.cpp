#include <trainer/cpu_stepper.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/fingerprint.hpp>
#include <trainer/blas.hpp>
#include <trainer/host_memory.hpp>

#include <cmath>
#include <fstream>

namespace kl::trainer {

Result<std::unique_ptr<Stepper>> CpuStepper::open(const Config& config, const Layout& layout,
                                                  const DatasetFacts& data, const SeamFiles& files) {
  const int threads = config.threads > 0 ? static_cast<int>(config.threads) : usable_cores();
  set_threads(threads);
  KL_TRY(auto seams, SeamSet::open(config, files, threads));
  MemoryPlan plan;
  plan.parameter_bytes = layout.size() * 4 * static_cast<int64_t>(sizeof(float));  // with gradients and at most two moments
  plan.activation_bytes =
      static_cast<int64_t>(Model<float>(config, layout, *seams, data.piece_bytes, Memory::planned).arena_bytes());
  KL_CHECK(check_memory(config, plan, available_memory_bytes()));
  return std::unique_ptr<Stepper>(new CpuStepper(config, layout, data, std::move(seams), threads));
}

CpuStepper::CpuStepper(const Config& config, const Layout& layout, const DatasetFacts& data,
                       std::unique_ptr<SeamSet> seams, int threads)
    : config_(config), threads_(threads), seams_(std::move(seams)),
      model_(config, layout, *seams_, data.piece_bytes), optimiser_(config, layout, *seams_),
      weights_(static_cast<size_t>(layout.size())), gradients_(weights_.size()) {}

double CpuStepper::accumulate_gradients(std::span<const int32_t> inputs, std::span<const int32_t> targets) {
  double loss = 0;
  const auto scale = static_cast<float>(1.0 / static_cast<double>(config_.tokens_per_step()));
  for (int64_t micro = 0; micro < config_.accumulation; ++micro) {
    const int32_t* in = inputs.data() + micro * config_.tokens();
    const int32_t* out = targets.data() + micro * config_.tokens();
    loss += model_.forward(weights_.data(), in, out);
    if (!std::isfinite(loss)) break;
    model_.backward(weights_.data(), gradients_.data(), in, out, scale);
  }
  return loss / static_cast<double>(config_.accumulation);
}

Result<StepResult> CpuStepper::step(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                                    double progress) {
  const int64_t start = monotonic_ns();
  StepResult result;
  result.loss = accumulate_gradients(inputs, targets);
  result.runaway = !std::isfinite(result.loss) || result.loss > kRunawayLoss;
  result.grad_norm = result.runaway
                         ? std::nan("")
                         : optimiser_.step(weights_.data(), gradients_.data(), progress);
  result.ns = result.device_ns = monotonic_ns() - start;
  KL_CHECK(seams_->fault());
  return result;
}

Result<StepResult> CpuStepper::differentiate(std::span<const int32_t> inputs,
                                             std::span<const int32_t> targets) {
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  const int64_t start = monotonic_ns();
  StepResult result;
  result.loss = accumulate_gradients(inputs, targets);
  double squares = 0;
  for (const float g : gradients_) squares += static_cast<double>(g) * static_cast<double>(g);
  result.grad_norm = std::sqrt(squares);
  result.ns = result.device_ns = monotonic_ns() - start;
  KL_CHECK(seams_->fault());
  return result;
}

Result<std::span<const float>> CpuStepper::losses(std::span<const int32_t> inputs,
                                                  std::span<const int32_t> targets) {
  model_.forward(weights_.data(), inputs.data(), targets.data());
  KL_CHECK(seams_->fault());
  return std::span<const float>(model_.nll(), static_cast<size_t>(config_.tokens()));
}

int64_t CpuStepper::peak_bytes() const {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (int64_t kilobytes = 0; word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  return 0;
}

std::string CpuStepper::maths_library() const { return blas_version(); }

}  // namespace kl::trainer
