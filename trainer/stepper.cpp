#include <trainer/stepper.hpp>

#include <trainer/cpu_stepper.hpp>
#include <trainer/cuda/open.hpp>

namespace kl::trainer {

Result<std::unique_ptr<Stepper>> open_stepper(const Config& config, const Layout& layout,
                                              const DatasetFacts& data, const SeamFiles& files) {
  return config.device == "cuda" ? open_cuda_stepper(config, layout, data, files)
                                 : CpuStepper::open(config, layout, data, files);
}

}  // namespace kl::trainer
