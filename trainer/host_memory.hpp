// Does a preset fit the memory of this machine? Asked before anything large is allocated.
#pragma once

#include <trainer/config.hpp>

#include <optional>

namespace kl::trainer {

struct MemoryPlan {
  int64_t parameter_bytes = 0;   // weights, gradients and the optimiser's state
  int64_t activation_bytes = 0;  // of a micro-batch, in proportion to its rows
};

// What this process may still take: MemAvailable, or less where its control group allows less.
// Nothing where neither can be read.
std::optional<int64_t> available_memory_bytes();

// An error with both figures, and the number of rows that would fit. Unknown memory always fits.
Outcome check_memory(const Config& config, const MemoryPlan& plan, std::optional<int64_t> available);

}  // namespace kl::trainer
