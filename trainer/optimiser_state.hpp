// What an optimiser keeps from step to step, in host memory.
#pragma once

#include <lab/core/safetensors.hpp>

#include <vector>

namespace kl::trainer {

struct OptimiserState {
  int64_t updates = 0;
  std::vector<NamedTensor> tensors;
};

}  // namespace kl::trainer
