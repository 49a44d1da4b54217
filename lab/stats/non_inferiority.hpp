// Is the loss no worse by more than the speed is worth? (Rule 2, gate L3: independent seeds.)
#pragma once

#include <lab/stats/interval.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace kl::stats {

// δ_L = min(0.005, ½·κ·ln(1 + g)): half of what the time saved would buy. κ = −dL/d ln(steps) of the
// baseline, g the lower bound of the speed-up; 0 when either is not positive.
double loss_margin(double kappa, double speed_up_low);

// Seeds per arm that find it nine times in ten: 17.1·(σ/δ_L)² + 1, rounded up.
int64_t seeds_per_arm(double sigma, double margin);

struct NonInferiority {
  bool non_inferior = false;
  bool inferior = false;   // the 95 % lower bound is above the margin
  double difference = 0;   // mean candidate loss − mean baseline loss, nats
  double upper_95 = 0;     // one-sided
  double lower_95 = 0;     // one-sided
  double margin = 0;
  int64_t seeds_to_decide = 0;  // per arm; 0 when decided

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("non_inferior", self.non_inferior, "upper one-sided 95 % bound under the margin");
    v("inferior", self.inferior, "lower one-sided 95 % bound over the margin");
    v("difference", self.difference, "mean loss of candidate minus baseline, nats");
    v("upper_95", self.upper_95, "upper one-sided 95 % bound");
    v("lower_95", self.lower_95, "lower one-sided 95 % bound");
    v("margin", self.margin, "largest loss difference the speed pays for");
    v("seeds_to_decide", self.seeds_to_decide, "seeds per arm that would decide; 0: decided");
  }
};

// Two independent samples with one variance. Undecided under two seeds per arm.
NonInferiority decide_non_inferiority(std::span<const double> baseline_losses,
                                      std::span<const double> candidate_losses, double margin);

}  // namespace kl::stats
