// What this device can do at best: copies by footprint and mix, matrix products, launches, timers.
#pragma once

#include <lab/engine/ceilings.hpp>
#include <lab/core/result.hpp>

namespace kl::cuda {

Result<DeviceCeilings> measure_ceilings(const CeilingRequest& request);

}  // namespace kl::cuda
