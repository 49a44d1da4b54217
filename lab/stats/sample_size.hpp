// How many more samples would decide, and what the samples at hand could have seen.
#pragma once

#include <cstdint>

namespace kl::stats {

inline constexpr int64_t kMostSamples = 1'000'000;  // "this many or more"

struct DecisionAsked {
  double delta = 0;                  // bound, log units
  double conclusive_confidence = 0;  // of the interval that must lie beyond ±delta
  double equivalent_confidence = 0;  // of the interval that must lie inside ±delta
  int64_t fewest = 2;
};

// The fewest samples with which a true mean and SD like these would be called (beyond ±delta or
// inside it) nine times in ten. kMostSamples when the mean sits on the bound itself.
int64_t samples_to_decide(double mean, double sd, const DecisionAsked& asked);

// Chance that `n` samples put the whole interval mean ± critical·sd/√n beyond `delta` when the true
// effect is `effect` (both positive, log units).
double power_beyond(double effect, double delta, double sd, int64_t n, double critical_t);

}  // namespace kl::stats
