#include <engines/cuda/nvml.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <type_traits>
#include <utility>
#include <vector>

namespace kl::cuda {
namespace {

// The part of NVML's stable C interface that is used here (nvml.h is not always installed).
using Handle = void*;
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_bytes;
  unsigned int gpu_instance, compute_instance;
};

struct Nvml {
  int (*init)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_pci)(const char*, Handle*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*max_clock)(Handle, int, unsigned*) = nullptr;
  int (*reasons)(Handle, unsigned long long*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*power_limit)(Handle, unsigned*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*processes)(Handle, unsigned*, ProcessInfo*) = nullptr;
  int (*mig)(Handle, unsigned*, unsigned*) = nullptr;
  bool started = false;
};

const Nvml& nvml() {
  static const Nvml loaded = [] {
    Nvml n;
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return n;
    const auto find = [&](auto& entry, const char* name, const char* older = nullptr) {
      void* symbol = ::dlsym(library, name);
      if (symbol == nullptr && older != nullptr) symbol = ::dlsym(library, older);
      entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(symbol);
    };
    find(n.init, "nvmlInit_v2");
    find(n.driver_version, "nvmlSystemGetDriverVersion");
    find(n.by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
    find(n.clock, "nvmlDeviceGetClockInfo");
    find(n.max_clock, "nvmlDeviceGetMaxClockInfo");
    find(n.reasons, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(n.power, "nvmlDeviceGetPowerUsage");
    find(n.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    find(n.temperature, "nvmlDeviceGetTemperature");
    find(n.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    find(n.mig, "nvmlDeviceGetMigMode");
    n.started = n.init != nullptr && n.init() == kSuccess;
    return n;
  }();
  return loaded;
}

template <class F, class... Arguments>
std::optional<unsigned> read(F* entry, Arguments... arguments) {
  unsigned value = 0;
  if (entry == nullptr || entry(arguments..., &value) != kSuccess) return std::nullopt;
  return value;
}

std::optional<int64_t> as_int(std::optional<unsigned> value) {
  return value ? std::optional<int64_t>(*value) : std::nullopt;
}
std::optional<double> from_milli(std::optional<unsigned> value) {
  return value ? std::optional<double>(*value * 1e-3) : std::nullopt;
}

// Empty when the process is another user's, or of another container.
std::string program_of(pid_t pid) {
  std::error_code code;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), code).filename().string();
}

std::optional<std::vector<std::string>> foreign(const Nvml& n, Handle device) {
  if (n.processes == nullptr) return std::nullopt;
  std::vector<ProcessInfo> list(64);
  auto count = static_cast<unsigned>(list.size());
  int error = n.processes(device, &count, list.data());
  if (error == kInsufficientSize) {
    list.resize(count + 16);
    count = static_cast<unsigned>(list.size());
    error = n.processes(device, &count, list.data());
  }
  if (error != kSuccess) return std::nullopt;
  std::vector<std::string> result;
  for (unsigned i = 0; i < count; ++i) {
    const auto pid = static_cast<pid_t>(list[i].pid);
    const std::string program = program_of(pid);
    if (pid == ::getpid() || program.starts_with("kernel-lab")) continue;
    const std::string memory = list[i].used_bytes == ~0ull ? "memory unknown"
                                                           : fmt::format("{} MiB", list[i].used_bytes >> 20);
    result.push_back(fmt::format("pid {} ({}), {}", pid, program.empty() ? "not visible here" : program, memory));
  }
  return result;
}

}  // namespace

std::vector<std::string> throttle_names(unsigned long long bits) {
  // Idle (0x1) and clocks set by an application (0x2) are no throttling.
  static constexpr std::pair<unsigned long long, const char*> kNames[] = {
      {0x4, "sw-power-cap"},        {0x8, "hw-slowdown"},        {0x10, "sync-boost"},
      {0x20, "sw-thermal-slowdown"}, {0x40, "hw-thermal-slowdown"}, {0x80, "hw-power-brake"},
      {0x100, "display-clocks"}};
  std::vector<std::string> names;
  for (const auto& [bit, name] : kNames)
    if ((bits & bit) != 0) names.emplace_back(name);
  return names;
}

std::optional<NvmlDriver> nvml_driver() {
  const Nvml& n = nvml();
  char text[96] = {};
  if (!n.started || n.driver_version == nullptr || n.driver_version(text, sizeof text) != kSuccess)
    return std::nullopt;
  return NvmlDriver{text};
}

std::optional<DeviceReadings> nvml_readings(const std::string& pci_bus_id, std::string* why_not) {
  const Nvml& n = nvml();
  const auto unknown = [&](std::string why) {
    if (why_not != nullptr) *why_not = std::move(why);
    return std::nullopt;
  };
  if (!n.started || n.by_pci == nullptr) return unknown("libnvidia-ml.so.1 does not load or does not start");
  Handle device = nullptr;
  if (const int error = n.by_pci(pci_bus_id.c_str(), &device); error != kSuccess)
    return unknown(fmt::format("NVML does not know device {}: error {}", pci_bus_id, error));
  DeviceReadings r;
  r.sm_mhz = as_int(read(n.clock, device, kClockSm));
  r.memory_mhz = as_int(read(n.clock, device, kClockMemory));
  r.sm_max_mhz = as_int(read(n.max_clock, device, kClockSm));
  unsigned long long bits = 0;
  if (n.reasons != nullptr && n.reasons(device, &bits) == kSuccess) r.throttle_reasons = throttle_names(bits);
  r.power_watts = from_milli(read(n.power, device));
  r.power_limit_watts = from_milli(read(n.power_limit, device));
  r.temperature_celsius = as_int(read(n.temperature, device, kTemperatureGpu));
  r.foreign_processes = foreign(n, device);
  unsigned now = 0, pending = 0;
  if (n.mig != nullptr && n.mig(device, &now, &pending) == kSuccess) r.mig_enabled = now != 0;
  return r;
}

}  // namespace kl::cuda
