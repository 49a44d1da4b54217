// The model: forward and backward of one micro-batch, in float or double, on a planned arena.
#pragma once

#include <trainer/arena.hpp>
#include <trainer/operations.hpp>
#include <trainer/parameters.hpp>
#include <trainer/seam.hpp>

namespace kl::trainer {

// What forward keeps of one layer for backward. N = B*T.
template <class R>
struct LayerActivations {
  R* x;     // [N,C]    input
  R* xb;    // [N,C]    lambda * x + mu * x0
  R* n1;    // [N,C]    rmsnorm(xb)
  R* q;     // [N,H,D]  rotated and normed
  R* k;     // [N,K,D]  rotated and normed
  R* v;     // [N,K,D]  with the gated value embedding
  R* rq;    // [N,H]    reciprocal rms of q
  R* rk;    // [N,K]
  R* gate;  // [N,K]
  R* p;     // [B,H,T,T] attention probabilities
  R* o;     // [N,H,D]  attention output
  R* xa;    // [N,C]    after attention
  R* n2;    // [N,C]    rmsnorm(xa)
  R* h;     // [N,4C]
  R* a;     // [N,4C]   relu(h)^2
};

template <class R>
class Model {
 public:
  // `threads` bounds the scratch of attention. Allocates everything; a step allocates nothing.
  Model(const Config& config, const Layout& layout, Seams<R>& seams, int threads);

  // Mean nats per valid target (target -1 is ignored), summed in double.
  double forward(const R* weights, const int32_t* tokens, const int32_t* targets);
  // After forward: gradients += scale * d(sum of nll)/d(weights).
  void backward(const R* weights, R* gradients, const int32_t* tokens, const int32_t* targets, R scale);

  const R* nll() const { return nll_; }        // [N], of the last forward
  const R* logits() const { return logits_; }  // [N,V], before softcap
  size_t arena_bytes() const { return arena_.bytes(); }

 private:
  void layer_forward(int64_t i, const View<const R>& w, const int32_t* tokens);
  void layer_backward(int64_t i, const View<const R>& w, const View<R>& g, const int32_t* tokens);
  R* layer_output(int64_t i) { return i + 1 < L ? layers_[static_cast<size_t>(i) + 1].x : x_; }

  const Layout& layout_;
  Seams<R>& seams_;
  const int64_t B, T, N, C, V, L, H, K, D;
  const R eps_;
  std::vector<int64_t> windows_;
  Arena arena_;
  std::vector<LayerActivations<R>> layers_;
  R *embedded_, *x0_, *x_, *nf_, *logits_, *nll_, *cosine_, *sine_;
  // gradients of activations, shared by all layers
  R *dx_, *dx0_, *dn_, *dtmp_, *dq_, *dk_, *dv_, *do_, *da_, *dh_, *dgate_, *dlogits_, *scratch_, *partial_;
};

extern template class Model<float>;
extern template class Model<double>;

}  // namespace kl::trainer
