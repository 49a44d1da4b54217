// The update: AdamW (Loshchilov and Hutter, 2019) without decay, and Muon (Jordan, 2024) for block
// matrices where the preset says so, both held by the seam optimizer_update.
#pragma once

#include <trainer/huge_pages.hpp>
#include <trainer/optimiser_state.hpp>
#include <trainer/parameters.hpp>
#include <trainer/seam.hpp>

#include <array>

namespace kl::trainer {

struct AdamSetting {
  double rate, beta1, beta2, eps;
};
AdamSetting adam_setting(const Config& config, Group group);

// Factor on every rate at `progress` in [0, 1]: flat, then linear to 0 over the last part.
double schedule(double progress, double decay_fraction);
// Muon's Nesterov momentum at update t (the first is 1): linear, then flat.
double muon_momentum(const Config& config, int64_t t);

class Optimiser {
 public:
  Optimiser(const Config& config, const Layout& layout, Seams<float>& seams);
  // Updates the weights, clears the gradients, and returns the norm the gradients had.
  double step(float* weights, float* gradients, double progress);
  int64_t steps() const { return t_; }
  void set_steps(int64_t steps) { t_ = steps; }
  OptimiserState state();

 private:
  using Values = std::vector<float, HugePages<float>>;
  const Config& config_;
  const int64_t size_;  // elements of the layout
  Seams<float>& seams_;
  const std::vector<Part> parts_;    // AdamW's
  const std::vector<Stack> stacks_;  // Muon's
  int64_t t_ = 0;
  Values m_, v_;                                          // AdamW's moments, part after part
  Values momentum_;                                       // Muon's, stack after stack
  std::vector<float> second_moment_;                      // of the longer side of each matrix
  std::vector<std::array<float, 7>> hyper_;               // by part
  std::array<float, 4> muon_hyper_{};
};

}  // namespace kl::trainer
