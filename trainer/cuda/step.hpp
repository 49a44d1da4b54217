// The model's step on the device: forward and backward of a micro-batch, and the update, in bf16
// with fp32 master weights, on memory planned once. The same model and the same layout of
// parameters as trainer/model.hpp.
#pragma once

#include <trainer/cuda/device.hpp>
#include <trainer/cuda/matmul.hpp>
#include <trainer/cuda/seam.hpp>
#include <trainer/parameters.hpp>

namespace kl::trainer::cuda {

// What forward keeps of one layer for backward. N = B*T.
struct LayerActivations {
  bf16* x;      // [N,C]    input
  bf16* xb;     // [N,C]    lambda * x + mu * x0
  bf16* n1;     // [N,C]    rmsnorm(xb)
  bf16* q;      // [N,H,D]  rotated and normed
  bf16* k;      // [N,K,D]  rotated and normed
  bf16* v;      // [N,K,D]  with the gated value embedding
  float* rq;    // [N,H]    reciprocal rms of q
  float* rk;    // [N,K]
  float* gate;  // [N,K]
  bf16* o;      // [N,H,D]  attention output; the probabilities are computed again in backward
  bf16* xa;     // [N,C]    after attention
  bf16* n2;     // [N,C]    rmsnorm(xa)
  bf16* h;      // [N,4C]
  bf16* a;      // [N,4C]   relu(h)^2
};

// A step's tokens, targets and scalars in device memory: written before forward reads them.
struct StepInputs {
  int32_t *tokens, *targets;    // [accumulation, N]
  int32_t *begin, *positions;   // [accumulation, V + 1], [accumulation, N]: TokenPositions
  StepScalars* scalars;         // [1]
};

class Step {
 public:
  // Reserves the step's memory in `arena`, which the caller commits before start().
  Step(const Config& config, const Layout& layout, Seams& seams, Matmul& products, DeviceArena& arena);
  Outcome start(cudaStream_t stream);

  // All asynchronous on the stream, in this order within a step.
  void clear();                  // gradients and loss
  void losses(int64_t micro);    // forward alone, up to the loss of every token
  void gradient(int64_t micro);  // forward and backward: adds to the mean loss and the gradients
  void norm();                   // of the gradients
  void update();                 // AdamW, unless the loss runs away
  void refresh();                // bf16 copies of the weights, after the masters were written

  const StepInputs& inputs() const { return inputs_; }
  float* weights() { return weights_; }
  const float* gradients() const { return gradients_; }
  float* first_moment() { return first_moment_; }
  float* second_moment() { return second_moment_; }
  const double* loss() const { return loss_; }  // mean over the micro-batches since clear()
  const double* gradient_norm() const { return norm_; }
  const float* nll() const { return nll_; }     // [N] of the last forward

 private:
  void forward(int64_t micro);   // up to the head's input
  void layer_forward(int64_t i, int64_t micro);
  void head(int64_t micro, bool with_gradient);
  void backward(int64_t micro);  // from the gradient of the head's input, in dn_
  void layer_backward(int64_t i, int64_t micro);
  void attention(const LayerActivations& l, int64_t window);
  void attention_backward(const LayerActivations& l, int64_t window);
  void attend(const LayerActivations& l, int64_t row, int64_t window);
  bf16* layer_output(int64_t i) { return i + 1 < L ? layers_[static_cast<size_t>(i) + 1].x : x_; }
  const int32_t* tokens(int64_t micro) const { return inputs_.tokens + micro * N; }
  const int32_t* targets(int64_t micro) const { return inputs_.targets + micro * N; }
  TokenPositions positions(int64_t micro) const {
    return {inputs_.begin + micro * (V + 1), inputs_.positions + micro * N};
  }
  void copy(bf16* to, const bf16* from, int64_t size);

  const Config& config_;
  const Layout& layout_;
  Seams& seams_;
  Matmul& products_;
  const int64_t B, T, N, C, V, L, H, K, D;
  const int64_t attention_rows_;  // rows of the batch whose scores are held at once
  cudaStream_t stream_ = nullptr;
  std::vector<LayerActivations> layers_;
  StepInputs inputs_{};
  float *weights_, *gradients_, *first_moment_, *second_moment_;
  bf16* compute_weights_;
  bf16 *embedded_, *x0_, *x_, *nf_, *logits_, *dlogits_;
  float *nll_, *cosine_, *sine_;
  double *loss_, *norm_, *partial_;
  // gradients of activations, shared by all layers
  bf16 *dx_, *dn_, *dtmp_, *dq_, *dk_, *dv_, *do_, *da_, *dh_;
  float *dx0_, *dgate_, *gate_partial_;
  // attention of some rows of the batch: scores, then gradients of probabilities; [H, rows, T, T]
  float* scores_;
  bf16 *probabilities_, *dscores_;
  char* workspace_;
};

}  // namespace kl::trainer::cuda
