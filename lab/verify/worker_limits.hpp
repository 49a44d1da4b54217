// What a worker may use, by engine.
#pragma once

#include <lab/engine/engine.hpp>
#include <lab/worker/worker.hpp>

namespace kl {

// cpu kernels see the host's memory, others their engine's device.
inline WorkerLimits worker_limits(const Engine& engine) {
  WorkerLimits limits;
  if (engine.name() != "cpu") limits.device = engine.name();
  return limits;
}

}  // namespace kl
