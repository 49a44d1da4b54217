// The seams as plain code, in any float type: what the gradient check runs on, and what the float
// model with kernel libraries is compared with.
#pragma once

#include <trainer/config.hpp>
#include <trainer/seam.hpp>

#include <algorithm>
#include <cmath>

namespace kl::trainer {

template <class R>
class PlainSeams : public Seams<R> {
 public:
  explicit PlainSeams(const Config& config)
      : N_(config.tokens()), C_(config.width), V_(config.vocab), eps_(R(config.eps)),
        cap_(R(config.softcap)) {}

  void rmsnorm_forward(int, const R* x, R* y) override {
    for (int64_t n = 0; n < N_; ++n, x += C_, y += C_) {
      const R r = inverse_rms(x);
      for (int64_t c = 0; c < C_; ++c) y[c] = x[c] * r;
    }
  }
  void rmsnorm_backward(int, const R* dy, const R* x, R* dx) override {
    for (int64_t n = 0; n < N_; ++n, x += C_, dx += C_, dy += C_) {
      const R r = inverse_rms(x);
      R dot = 0;
      for (int64_t c = 0; c < C_; ++c) dot += dy[c] * x[c] * r;
      dot /= R(C_);
      for (int64_t c = 0; c < C_; ++c) dx[c] = r * (dy[c] - x[c] * r * dot);
    }
  }
  void activation_forward(int, const R* h, R* y) override {
    for (int64_t i = 0; i < N_ * 4 * C_; ++i) y[i] = h[i] > 0 ? h[i] * h[i] : R(0);
  }
  void activation_backward(int, const R* dy, const R* h, R* dh) override {
    for (int64_t i = 0; i < N_ * 4 * C_; ++i) dh[i] = h[i] > 0 ? 2 * h[i] * dy[i] : R(0);
  }
  void loss_forward(const R* logits, const int32_t* targets, R* nll) override {
    for (int64_t n = 0; n < N_; ++n, logits += V_)
      nll[n] = targets[n] < 0 ? R(0) : log_sum_exp(logits) - capped(logits[targets[n]]);
  }
  void loss_backward(R g, const R* logits, const int32_t* targets, R* dlogits) override {
    for (int64_t n = 0; n < N_; ++n, logits += V_, dlogits += V_) {
      const R total = targets[n] < 0 ? R(0) : log_sum_exp(logits);
      for (int64_t v = 0; v < V_; ++v) {
        const R t = std::tanh(logits[v] / cap_);
        const R p = std::exp(cap_ * t - total) - (v == targets[n] ? R(1) : R(0));
        dlogits[v] = targets[n] < 0 ? R(0) : g * p * (1 - t * t);
      }
    }
  }

 private:
  R inverse_rms(const R* x) const {
    R sum = 0;
    for (int64_t c = 0; c < C_; ++c) sum += x[c] * x[c];
    return 1 / std::sqrt(sum / R(C_) + eps_);
  }
  R capped(R z) const { return cap_ * std::tanh(z / cap_); }
  R log_sum_exp(const R* logits) const {
    R sum = 0;  // softcapped values lie in [-softcap, softcap]: no maximum is needed
    for (int64_t v = 0; v < V_; ++v) sum += std::exp(capped(logits[v]));
    return std::log(sum);
  }
  int64_t N_, C_, V_;
  R eps_, cap_;
};

}  // namespace kl::trainer
