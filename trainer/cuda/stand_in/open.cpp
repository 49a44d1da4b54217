// Stands in for the CUDA step where the trainer was built without the CUDA toolkit.
#include <trainer/cuda/open.hpp>

namespace kl::trainer {

Result<std::unique_ptr<Stepper>> open_cuda_stepper(const Config& config, const Layout&, const DatasetFacts&,
                                                   const SeamFiles&) {
  return make_error(Status::missing_runtime,
                    "preset " + config.name + " runs on CUDA, and this trainer was built without the CUDA toolkit",
                    "build Kernel Lab where nvcc is, or choose a preset of the cpu family");
}

}  // namespace kl::trainer
