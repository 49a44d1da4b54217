// What a kernel is bound by, from the shares of each resource's peak: one pure function.
#pragma once

#include <optional>
#include <string>

namespace kl {

// Shares, 0 … 1; absent: not known here.
struct ResourceShares {
  std::optional<double> compute;       // operations over time, of the measured product rate
  std::optional<double> bandwidth;     // bytes over time, of the measured copy ceiling
  std::optional<double> busy_threads;  // processor time over time and threads
  std::optional<double> stalled;       // cycles without progress, of all; only counters know
};

struct Diagnosis {
  std::string label;  // compute-bound, bandwidth-bound, latency-bound, under-occupied, mixed; empty: too little is known
  double confidence = 0;
  std::string why;    // one sentence with the numbers
};

inline constexpr double kBoundShare = 0.6;    // of a resource's peak
inline constexpr double kClearMargin = 0.1;   // above every other resource
// Beyond this a share is not of this world: the model counts too much, or the ceiling is not one.
inline constexpr double kImpossibleShare = 1.2;

// The first that applies: neither resource known → none; ≥ 60 % of one and 10 points above the other →
// bound by it (0.65 and up; 0.5 where the other is unknown); ≥ 60 % of both, close together → mixed;
// under 60 %: fewer than half of the threads busy → under-occupied; half of the cycles stalled →
// latency-bound; else mixed. Confidence under 0.5 is a weak diagnosis.
Diagnosis diagnose(const ResourceShares& shares);

}  // namespace kl
