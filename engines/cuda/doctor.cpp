#include <engines/cuda/doctor.hpp>

#include <engines/cuda/driver.hpp>
#include <engines/cuda/nvml.hpp>
#include <engines/cuda/toolkit.hpp>

#include <lab/core/files.hpp>
#include <lab/core/process.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <regex>

namespace kl::cuda {
namespace {

DoctorLine missing(std::string name, const Error& error) { return {std::move(name), error.status, error.what, error.remedy}; }

DoctorLine driver_line() {
  const auto& driver = Driver::get();
  if (!driver.ok()) return missing("driver", driver.error());
  const auto nvml = nvml_driver();
  const std::string found = fmt::format("{}, serves CUDA {}", nvml ? nvml->version : "version unknown", version_text(driver->version));
  if (const auto& toolkit = Toolkit::find(); toolkit.ok() && driver->version / 1000 < toolkit->major)
    return {"driver", Status::missing_runtime, fmt::format("{}; the toolkit is {}", found, toolkit->version),
            fmt::format("install a driver that serves CUDA {}.0 or later, or use an older toolkit (CUDACXX)", toolkit->major)};
  return {"driver", Status::ok, found, ""};
}

std::vector<DoctorLine> device_lines() {
  const auto& device = device_info();
  if (!device.ok()) return {missing("device", device.error())};
  std::vector<DoctorLine> lines = {
      {"device", Status::ok,
       fmt::format("{}, {}, {} multiprocessors, {} MiB of L2, {} GiB", device->name, device->architecture(),
                   device->multiprocessors, device->l2_bytes >> 20, device->memory_bytes >> 30), ""}};
  std::string why;
  const auto readings = nvml_readings(device->pci_bus_id, &why);
  if (!readings) {
    lines.push_back({"readings", Status::missing_runtime, why, "install libnvidia-ml.so.1 of the driver: clocks stay unknown without it"});
    return lines;
  }
  const auto number = [](const auto& value, const char* unit) { return value ? fmt::format("{} {}", *value, unit) : std::string("unknown"); };
  lines.push_back({"readings", Status::ok,
                   fmt::format("{} of {}, memory {}, {} of {}, {}", number(readings->sm_mhz, "MHz"), number(readings->sm_max_mhz, "MHz"),
                               number(readings->memory_mhz, "MHz"), number(readings->power_watts, "W"),
                               number(readings->power_limit_watts, "W"), number(readings->temperature_celsius, "°C")), ""});
  const auto list = [](const auto& texts) { return texts && !texts->empty() ? fmt::format("{}", fmt::join(*texts, "; ")) : std::string(texts ? "none" : "unknown"); };
  const bool throttled = readings->throttle_reasons && !readings->throttle_reasons->empty();
  lines.push_back({"throttling", throttled ? Status::unstable : Status::ok, list(readings->throttle_reasons),
                   throttled ? "let the device cool, or raise its power limit (nvidia-smi -pl)" : ""});
  const bool shared = readings->foreign_processes && !readings->foreign_processes->empty();
  lines.push_back({"other processes", shared ? Status::unstable : Status::ok, list(readings->foreign_processes),
                   shared ? "the device is shared: stop them, or choose another with CUDA_VISIBLE_DEVICES" : ""});
  const bool mig = readings->mig_enabled.value_or(false);
  lines.push_back({"MIG", mig ? Status::unstable : Status::ok,
                   readings->mig_enabled ? (mig ? "enabled: this is a partition, and its figures are not the device's" : "off") : "unknown",
                   mig ? "nvidia-smi -mig 0 as root, when nobody uses the partitions" : ""});
  return lines;
}

DoctorLine library_line(const char* name, const std::string& file, const char* version_symbol, const char* remedy) {
  void* library = open_library(file);
  if (library == nullptr) return {name, Status::missing_tool, "", remedy};
  std::string found = file;
  if (version_symbol != nullptr)
    if (void* symbol = ::dlsym(library, version_symbol))
      found += fmt::format(", version {}", reinterpret_cast<size_t (*)()>(symbol)());
  return {name, Status::ok, found, ""};
}

DoctorLine program_line(const char* name, const char* remedy) {
  const auto program = find_program(name);
  if (program.empty()) return {name, Status::missing_tool, "", remedy};
  const auto run = run_process({.arguments = {program.string(), "--version"}, .timeout_seconds = 30});
  std::string version;
  if (run.ok()) {
    std::smatch found;
    const std::string said = run->out + run->err;
    if (std::regex_search(said, found, std::regex(R"(\d+\.\d+(\.\d+)+)"))) version = " " + found[0].str();
  }
  return {name, Status::ok, program.string() + version, ""};
}

DoctorLine counters_line() {
  const auto params = read_file("/proc/driver/nvidia/params");
  const auto restricted = params.ok() ? counters_are_restricted(*params) : std::nullopt;
  if (!restricted) return {"counters", Status::missing_runtime, "unknown: /proc/driver/nvidia/params does not say", "load the NVIDIA driver's kernel module"};
  if (!*restricted || ::geteuid() == 0) return {"counters", Status::ok, *restricted ? "for administrators, which this user is" : "for every user", ""};
  return {"counters", Status::no_permission, "for administrators only (RmProfilingAdminOnly: 1)",
          "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > /etc/modprobe.d/nvidia-profiling.conf, "
          "then reboot; in a container: --cap-add SYS_ADMIN"};
}

}  // namespace

std::optional<bool> counters_are_restricted(const std::string& params) {
  std::smatch found;
  if (!std::regex_search(params, found, std::regex(R"(RmProfilingAdminOnly:\s*(\d))"))) return std::nullopt;
  return found[1] != "0";
}

std::vector<DoctorLine> doctor() {
  std::vector<DoctorLine> lines = {driver_line()};
  for (auto& line : device_lines()) lines.push_back(std::move(line));
  const auto& toolkit = Toolkit::find();
  lines.push_back(toolkit.ok() ? DoctorLine{"toolkit", Status::ok,
                                            fmt::format("nvcc {} ({}), builds for {}", toolkit->version, toolkit->nvcc.string(), target_architecture()), ""}
                               : missing("toolkit", toolkit.error()));
  lines.push_back(library_line("cuBLASLt", fmt::format("libcublasLt.so.{}", CUDA_VERSION / 1000), "cublasLtGetVersion",
                               "install the toolkit's cuBLAS: matrix rates stay unknown without it"));
  lines.push_back(library_line("cuDNN", "libcudnn.so.9", "cudnnGetVersion", "install cuDNN 9: only comparisons with it need it"));
  lines.push_back(library_line("CUPTI", fmt::format("libcupti.so.{}", CUDA_VERSION / 1000), nullptr,
                               "install the toolkit's CUPTI (cuda-cupti): captures and the timer's check need it"));
  lines.push_back(program_line("ncu", "install Nsight Compute: deep-profile needs it"));
  lines.push_back(program_line("nsys", "install Nsight Systems: capture --tool nsys needs it"));
  lines.push_back(program_line("compute-sanitizer", "install the toolkit's compute-sanitizer: verify --sanitize needs it"));
  lines.push_back(counters_line());
  return lines;
}

}  // namespace kl::cuda
