// The seams of a step, as the model sees them. Forward and backward of a seam always come from the
// same implementation; `site` says which call of the step it is, because each keeps its own `saved`.
#pragma once

#include <cstdint>

namespace kl::trainer {

template <class R>
class Seams {
 public:
  virtual ~Seams() = default;
  // y[N,C] = x * rsqrt(mean(x^2) + eps)
  virtual void rmsnorm_forward(int site, const R* x, R* y) = 0;
  virtual void rmsnorm_backward(int site, const R* dy, const R* x, R* dx) = 0;
  // y[N,4C] = relu(h)^2
  virtual void activation_forward(int site, const R* h, R* y) = 0;
  virtual void activation_backward(int site, const R* dy, const R* h, R* dh) = 0;
  // nll[N] of softcap(logits[N,V]) at targets[N]; 0 where the target is -1
  virtual void loss_forward(const R* logits, const int32_t* targets, R* nll) = 0;
  virtual void loss_backward(R g, const R* logits, const int32_t* targets, R* dlogits) = 0;
};

}  // namespace kl::trainer
