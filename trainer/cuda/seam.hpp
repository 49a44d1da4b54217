// The seams of the CUDA step: kernel libraries called on the step's stream, while a graph is
// captured or at once. Errors of a call are kept and asked for after the step.
#pragma once

#include <trainer/cuda/device.hpp>
#include <trainer/cuda/kernels.hpp>
#include <trainer/seam_set.hpp>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace kl::trainer::cuda {

// Sees every call of a seam while a graph is captured.
class CallWatch {
 public:
  virtual ~CallWatch() = default;
  virtual void before_call(const std::string& seam, bool forward) = 0;
  virtual void after_call(const std::string& seam, bool forward) = 0;
};

class Seams {
 public:
  // Every library must accept the step's shapes. The seams' memory is reserved in `arena`, which
  // the caller commits.
  static Result<std::unique_ptr<Seams>> open(const Config& config, const SeamFiles& files, DeviceArena& arena);
  // After the arena is committed.
  Outcome start(std::span<const int32_t> token_bytes, double gradient_scale, const uint64_t* step);

  void use(cudaStream_t stream, CallWatch* watch) {
    stream_ = stream;
    watch_ = watch;
  }

  // y[N,C]; `site` says which call of a forward pass it is
  void rmsnorm_forward(int site, const bf16* x, bf16* y);
  void rmsnorm_backward(int site, const bf16* dy, const bf16* x, bf16* dx);
  // nll[rows] of softcap(logits[rows,V]); dlogits = scale * their gradient
  void loss_forward(const bf16* logits, const int32_t* targets, float* nll);
  void loss_backward(const bf16* logits, const int32_t* targets, bf16* dlogits);

  Outcome perturb(const std::string& seam, uint64_t seed);
  const std::map<std::string, SeamCounts>& calls() const { return calls_; }  // of libraries, ever
  const SeamFiles& files() const { return files_; }
  Outcome fault() const;

 private:
  struct Seam {
    std::string name;
    std::optional<KernelLibrary> library;
    PreparedCall forward, backward;
    char *saved = nullptr, *scratch = nullptr;
    int64_t saved_stride = 0;
    std::optional<uint64_t> perturb;
  };
  Outcome open_seam(Seam& seam, const std::string& name, CallForm forward, CallForm backward, int sites,
                    DeviceArena& arena);
  void call(Seam& seam, bool forward, int site, std::initializer_list<const void*> inputs,
            std::initializer_list<void*> outputs);
  void move_outputs(const Seam& seam, const PreparedCall& call) const;

  Seam rmsnorm_, loss_;
  SeamFiles files_;
  cudaStream_t stream_ = nullptr;
  CallWatch* watch_ = nullptr;
  std::map<std::string, SeamCounts> calls_;
  std::optional<std::string> fault_;
  // device memory
  int32_t* token_bytes_ = nullptr;   // [V]
  float* gradient_scale_ = nullptr;  // [1]
  double *nll_sum_ = nullptr, *byte_sum_ = nullptr;
  const uint64_t* step_ = nullptr;
};

}  // namespace kl::trainer::cuda
