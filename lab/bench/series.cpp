#include <lab/bench/series.hpp>

namespace kl {

std::vector<double> step_ns(const std::vector<std::vector<int64_t>>& by_slot,
                            const std::vector<int64_t>& calls_per_step) {
  std::vector<double> steps(by_slot.empty() ? 0 : by_slot.front().size());
  for (size_t slot = 0; slot < by_slot.size(); ++slot)
    for (size_t letter = 0; letter < steps.size(); ++letter)
      steps[letter] += static_cast<double>(by_slot[slot][letter] * calls_per_step[slot]);
  return steps;
}

}  // namespace kl
