// What carries out steps on a device: the CPU's model and optimiser, or the CUDA step. A session
// feeds it tokens and asks it for losses, weights and gradients; it never knows which one it has.
#pragma once

#include <trainer/dataset.hpp>
#include <trainer/optimiser_state.hpp>
#include <trainer/parameters.hpp>
#include <trainer/seam_set.hpp>

#include <memory>
#include <span>

namespace kl::trainer {

constexpr double kRunawayLoss = 100;

struct StepResult {
  int64_t index = 0;
  int64_t ns = 0;         // host clock, from the batch in host memory to the finished step
  int64_t device_ns = 0;  // the device's clock; that of the host where the CPU is the device
  int64_t begin_ns = 0, end_ns = 0;  // of the session's step, which also makes the batch
  double loss = 0;        // mean nats per token over all micro-batches
  double grad_norm = 0;
  bool runaway = false;  // the loss is not finite or above 100: the weights were not updated
  std::map<std::string, SeamCounts> seams;
};

class Stepper {
 public:
  virtual ~Stepper() = default;

  // One optimiser step on accumulation x N tokens at `progress` in [0, 1] of the run; no update when the
  // loss runs away.
  virtual Result<StepResult> step(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                                  double progress) = 0;
  // Loss and gradient of the same, without an update.
  virtual Result<StepResult> differentiate(std::span<const int32_t> inputs,
                                           std::span<const int32_t> targets) = 0;
  // Nats of each of the N tokens of one micro-batch; valid until the next call.
  virtual Result<std::span<const float>> losses(std::span<const int32_t> inputs,
                                                std::span<const int32_t> targets) = 0;

  // The weights in host memory, in the layout's order. Who writes them says so afterwards.
  virtual Result<std::span<float>> weights() = 0;
  virtual Outcome weights_changed() = 0;
  virtual Result<std::span<const float>> gradients() = 0;  // after differentiate
  // As weights(): who writes the tensors says so afterwards, with the number of updates they come from.
  virtual Result<OptimiserState> optimiser_state() = 0;
  virtual Outcome optimiser_changed(int64_t updates) = 0;

  virtual Outcome perturb(const std::string& seam, uint64_t seed) = 0;
  virtual std::map<std::string, SeamCounts> counts() const = 0;
  virtual const SeamFiles& files() const = 0;  // with hashes as loaded
  virtual int threads() const = 0;
  virtual int64_t peak_bytes() const = 0;
  virtual std::string maths_library() const = 0;  // name and version of who multiplies matrices
};

// `config` and `layout` outlive the stepper. Errors: a missing device, library or memory, each with
// its remedy; a seam's library that does not accept the step's shapes.
Result<std::unique_ptr<Stepper>> open_stepper(const Config& config, const Layout& layout,
                                              const DatasetFacts& data, const SeamFiles& files);

}  // namespace kl::trainer
