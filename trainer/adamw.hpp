// AdamW (Loshchilov and Hutter, 2019) without decay, over every tensor of the layout.
#pragma once

#include <trainer/huge_pages.hpp>
#include <trainer/optimiser_state.hpp>
#include <trainer/parameters.hpp>

#include <cmath>

namespace kl::trainer {

struct AdamSetting {
  double rate, beta1, beta2, eps;
};
AdamSetting adam_setting(const Config& config, Group group);

// Factor on every rate at `progress` in [0, 1]: flat, then linear to 0 over the last part.
double schedule(double progress, double decay_fraction);

// One element's update at step t (the first is 1).
inline float adam_element(float w, float g, float& m, float& v, float beta1, float beta2,
                          float rate_over_correction1, float inverse_root_correction2, float eps) {
  m = beta1 * m + (1 - beta1) * g;
  v = beta2 * v + (1 - beta2) * g * g;
  return w - rate_over_correction1 * m / (std::sqrt(v) * inverse_root_correction2 + eps);
}

class AdamW {
 public:
  AdamW(const Config& config, const Layout& layout);
  // Updates the weights, clears the gradients, and returns the norm the gradients had.
  double step(float* weights, float* gradients, double factor);
  int64_t steps() const { return t_; }
  void set_steps(int64_t steps) { t_ = steps; }
  OptimiserState state();  // both moments, each a tensor of the layout's size

 private:
  const Config& config_;
  const Layout& layout_;
  int64_t t_ = 0;
  std::vector<float, HugePages<float>> m_, v_;
  std::vector<double> partial_;  // sum of squares of each block of elements, in order
};

}  // namespace kl::trainer
