// The cuda engine: kernels are CUDA C++ compiled by nvcc for the device at hand; the driver is loaded
// at run time, so that everything but running works where there is none.
#include <engines/cuda/compiler.hpp>
#include <engines/cuda/cuda_host.hpp>
#include <engines/cuda/doctor.hpp>
#include <engines/cuda/driver.hpp>
#include <engines/cuda/nvml.hpp>
#include <engines/cuda/plain_device.hpp>
#include <engines/cuda/probes.hpp>
#include <engines/cuda/sanitizers.hpp>
#include <engines/cuda/toolkit.hpp>

#include <lab/engine/engine.hpp>

#include <fmt/format.h>

namespace kl {
namespace {

class CudaEngine : public Engine {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string_view backend_family() const override { return "nvidia"; }

  // "kernel.sm90.cu" before "kernel.cu".
  std::vector<std::string> kernel_files() const override {
    std::string family = cuda::target_architecture().substr(3);
    while (!family.empty() && (family.back() == 'a' || family.back() == 'f')) family.pop_back();
    return {"kernel.sm" + family + ".cu", "kernel.cu"};
  }
  std::vector<std::string> reference_files() const override { return {"reference.cu"}; }
  RunTimeSymbols run_time_symbols() const override { return cuda::run_time_symbols(); }

  Outcome usable() const override {
    if (const auto& driver = cuda::Driver::get(); !driver.ok()) return driver.error();
    if (const auto& device = cuda::device_info(); !device.ok()) return device.error();
    const auto& toolkit = cuda::Toolkit::find();
    if (!toolkit.ok()) return toolkit.error();
    if (cuda::Driver::get()->version / 1000 < toolkit->major)
      return make_error(Status::missing_runtime,
                        fmt::format("the NVIDIA driver is too old: it serves CUDA {}, the toolkit is {}",
                                    cuda::version_text(cuda::Driver::get()->version), toolkit->version),
                        fmt::format("install a driver that serves CUDA {}.0 or later, or use an older toolkit (CUDACXX)",
                                    toolkit->major));
    return {};
  }

  std::vector<DoctorLine> doctor() const override { return cuda::doctor(); }

  Result<DeviceDescription> device() const override {
    KL_CHECK(usable());
    const auto& device = *cuda::device_info();
    const auto nvml = cuda::nvml_driver();
    const std::string driver = nvml ? nvml->version.substr(0, nvml->version.find('.'))
                                    : "CUDA " + cuda::version_text(cuda::Driver::get()->version);
    return DeviceDescription{device.name, driver, "nvcc " + cuda::Toolkit::find()->version, device.multiprocessors,
                             device.l2_bytes};
  }

  Result<std::string> build_key(const CompileRequest&) const override { return cuda::build_key(); }
  Result<CompileReport> compile(const CompileRequest& request) const override { return cuda::compile(request); }

  Result<std::unique_ptr<DeviceHost>> open_device_host() const override { return cuda::open_host(); }
  Result<std::vector<Sanitizer>> sanitizers() const override { return cuda::sanitizers(); }
  Result<std::unique_ptr<PlainDevice>> open_plain_device() const override { return cuda::open_plain_device(); }
  std::optional<DeviceReadings> readings() const override {
    const auto& device = cuda::device_info();
    return device.ok() ? cuda::nvml_readings(device->pci_bus_id) : std::nullopt;
  }
  Result<std::optional<DeviceCeilings>> ceilings(const CeilingRequest& request) const override {
    KL_TRY(DeviceCeilings measured, cuda::measure_ceilings(request));
    return std::optional<DeviceCeilings>(std::move(measured));
  }
};

}  // namespace

namespace engines {
Engine& cuda() {
  static CudaEngine engine;
  return engine;
}
}  // namespace engines

}  // namespace kl
