// The model: forward and backward of one micro-batch, in float or double, on a planned arena.
#pragma once

#include <trainer/arena.hpp>
#include <trainer/composed_attention.hpp>
#include <trainer/operations.hpp>
#include <trainer/parameters.hpp>
#include <trainer/regions.hpp>
#include <trainer/seam.hpp>

#include <optional>
#include <span>
#include <vector>

namespace kl::trainer {

// What forward keeps of one layer for backward. N = B*T; null where the chosen regions do not need it.
template <class R>
struct LayerActivations {
  R* x = nullptr;    // [N,C]    input
  R* xb = nullptr;   // [N,C]    lambda * x + mu * x0
  R* n1 = nullptr;   // [N,C]    rmsnorm(xb)
  R* q0 = nullptr;   // [N,H,D]  n1 Wq^T
  R* k0 = nullptr;   // [N,K,D]
  R* v0 = nullptr;   // [N,K,D]  before the gated value embedding; v itself where there is none
  R* ve = nullptr;   // [N,K,D]  rows of the value embedding
  R* qr = nullptr;   // [N,H,D]  rotated, where rotation and norm are two seams
  R* kr = nullptr;   // [N,K,D]
  R* q = nullptr;    // [N,H,D]  rotated and normed
  R* k = nullptr;    // [N,K,D]
  R* v = nullptr;    // [N,K,D]
  R* o = nullptr;    // [N,H,D]  attention output
  R* lse = nullptr;  // [B,H,T]  log-sum-exp of the scores
  R* xa = nullptr;   // [N,C]    after attention
  R* n2 = nullptr;   // [N,C]    rmsnorm(xa)
  R* h = nullptr;    // [N,4C]   n2 W1^T
  R* a = nullptr;    // [N,4C]   relu(h)^2
};

enum class Memory { allocated, planned };

template <class R>
class Model {
 public:
  // Allocates everything; a step allocates nothing. A model that is only planned answers arena_bytes() alone.
  Model(const Config& config, const Layout& layout, Seams<R>& seams,
        std::span<const int32_t> token_bytes, Memory memory = Memory::allocated);

  // Mean nats per valid target (target -1 is ignored), summed in double.
  double forward(const R* weights, const int32_t* tokens, const int32_t* targets);
  // After forward: gradients += scale * d(sum of nll)/d(weights).
  void backward(const R* weights, R* gradients, const int32_t* tokens, const int32_t* targets,
                R scale);

  const R* nll() const { return nll_; }        // [N], of the last forward
  const R* logits() const { return logits_; }  // [N,V], before softcap; null with cross_entropy_full
  size_t arena_bytes() const { return arena_.bytes(); }

 private:
  using Layer = LayerActivations<R>;
  using Weights = View<const R>;
  using Gradients = View<R>;
  // The regions of the step, in its order; backward takes dx_, the gradient of the block's output, and
  // leaves that of its input there.
  void embedding(const Weights& w, const int32_t* tokens);
  void block_start(int64_t i, const Weights& w, const int32_t* tokens);
  void projections(int64_t i, const Weights& w);
  void rotary(int64_t i);
  void attention(int64_t i);
  void attention_output(int64_t i, const Weights& w);
  void mlp(int64_t i, const Weights& w);
  void head_and_loss(const Weights& w, const int32_t* targets);
  void loss_in_parts(const int32_t* targets);

  void loss_in_parts_backward(const int32_t* targets, R scale);
  void head_and_loss_backward(const Weights& w, const Gradients& g, const int32_t* targets, R scale);
  void final_norm_backward();
  void mlp_backward(int64_t i, const Weights& w, const Gradients& g);
  void attention_output_backward(int64_t i, const Weights& w, const Gradients& g);
  void attention_backward(int64_t i);
  void rotary_backward(int64_t i);
  void projections_backward(int64_t i, const Weights& w, const Gradients& g);
  void block_start_backward(int64_t i, const Weights& w, const Gradients& g, const int32_t* tokens);
  void embedding_backward(const Gradients& g, const int32_t* tokens);
  // dx_ becomes the gradient of `sum` of an add whose sum goes on as it is and through a norm.
  void norm_backward(int norm_site, bool fused, int add_site, const R* sum);

  void reserve_layer(Layer& layer, bool value_embedding);
  Layer& layer(int64_t i) { return layers_[static_cast<size_t>(i)]; }
  R* layer_output(int64_t i) { return i + 1 < L ? layer(i + 1).x : x_; }
  bool has_value_embedding(int64_t i) { return layer(i).ve != nullptr; }

  const Layout& layout_;
  Seams<R>& seams_;
  const std::vector<int32_t> token_bytes_;  // [V]
  const int64_t B, T, N, C, V, L, H, K, D;
  const Regions r_;
  Arena arena_;
  std::optional<ComposedAttention<R>> parts_of_attention_;
  std::vector<Layer> layers_;
  R *embedded_, *x0_, *x_, *nf_, *update_, *nll_, *cosine_, *sine_;
  R* logits_ = nullptr;
  R *capped_, *row_max_, *row_lse_, *target_logit_;  // [N,V], [N]: of the loss in parts
  double nll_sum_ = 0, byte_sum_ = 0;
  // gradients of activations, shared by all layers
  R *dx_, *dother_, *dx0_, *dn_, *dq_, *dk_, *dv_, *dq0_, *dk0_, *do_, *da_, *dh_, *dgate_, *dve_,
      *dlogits_, *dcapped_, *dlse_, *dtarget_logit_;
};

extern template class Model<float>;
extern template class Model<double>;

}  // namespace kl::trainer
