// Device memory for a run under compute-sanitizer.
#pragma once

#include <lab/engine/plain_device.hpp>

#include <memory>

namespace kl::cuda {

Result<std::unique_ptr<PlainDevice>> open_plain_device();

}  // namespace kl::cuda
