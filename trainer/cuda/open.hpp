// The way in to the CUDA step; a build without the CUDA toolkit answers missing_runtime.
#pragma once

#include <trainer/stepper.hpp>

namespace kl::trainer {

Result<std::unique_ptr<Stepper>> open_cuda_stepper(const Config& config, const Layout& layout,
                                                   const DatasetFacts& data, const SeamFiles& files);

}  // namespace kl::trainer
