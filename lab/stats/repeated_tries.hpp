// A winner picked out of k tries is not evidence until it wins once more, fresh.
#pragma once

#include <lab/core/record.hpp>

#include <cmath>

namespace kl::stats {

struct Tries {
  int count = 1;              // comparisons of this candidate in this setting, the confirmation apart
  bool confirmed = false;     // a fresh comparison after them said the same

  bool needs_confirmation() const { return count > 1 && !confirmed; }

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("count", self.count, "comparisons that were run before this one was believed, itself included");
    v("confirmed", self.confirmed, "a fresh comparison after them said the same");
  }
};

// Chance that at least one of k comparisons errs when each does at rate alpha.
inline double chance_of_any(double alpha, int k) { return -std::expm1(k * std::log1p(-alpha)); }

}  // namespace kl::stats
