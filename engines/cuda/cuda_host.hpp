// The device side of a worker on CUDA. Exactly one stream belongs to calls; anything a call leaves
// elsewhere is found: see `run` in lab/engine/device_host.hpp.
#pragma once

#include <lab/engine/device_host.hpp>

#include <memory>

namespace kl::cuda {

Result<std::unique_ptr<DeviceHost>> open_host();

}  // namespace kl::cuda
