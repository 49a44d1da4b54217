#include <engines/cuda/driver.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace kl::cuda {
namespace {

#define KL_TEXT_OF(name) #name
#define KL_TEXT(name) KL_TEXT_OF(name)

Error no_driver(const char* why) {
  return make_error(Status::missing_runtime, fmt::format("no NVIDIA driver: {}", why),
                    "install the NVIDIA driver, or start the container with its GPU "
                    "(docker run --gpus all); without a GPU use the cpu engine and a cpu preset");
}

// An error of cuInit, told by what it means here.
Error not_initialised(const Driver& driver, CUresult error) {
  const std::string said = describe(error);
  switch (error) {
    case CUDA_ERROR_NO_DEVICE:
      return make_error(Status::missing_runtime, fmt::format("no NVIDIA device: cuInit says {}", said),
                        "look at nvidia-smi and at CUDA_VISIBLE_DEVICES, or use the cpu engine and a cpu preset");
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return make_error(Status::missing_runtime,
                        fmt::format("libcuda.so.1 and the kernel's driver do not fit: {}", said),
                        "reboot after a driver upgrade; in a container use the host's libcuda");
    default:
      if (::access("/dev/nvidiactl", F_OK) == 0 && ::access("/dev/nvidiactl", R_OK | W_OK) != 0)
        return make_error(Status::no_permission, fmt::format("/dev/nvidiactl may not be opened: {}", said),
                          "give this user access to /dev/nvidia* (often: membership of group video)");
      return make_error(Status::missing_runtime,
                        fmt::format("the NVIDIA driver (CUDA {}) does not start: {}",
                                    version_text(driver.version), said),
                        "look at nvidia-smi and at the system's log");
  }
}

Result<Driver> load() {
  // Kept open: the entries are used until the process ends.
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return no_driver(::dlerror());
  Driver driver;
  const char* missing = nullptr;
#define KL_CUDA_LOAD(name)                                                                       \
  driver.name = reinterpret_cast<decltype(driver.name)>(::dlsym(library, KL_TEXT(name)));        \
  if (driver.name == nullptr) missing = KL_TEXT(name);
  KL_CUDA_ENTRIES(KL_CUDA_LOAD)
#undef KL_CUDA_LOAD
  if (driver.cuDriverGetVersion != nullptr) driver.cuDriverGetVersion(&driver.version);
  if (missing != nullptr)
    return make_error(Status::missing_runtime,
                      fmt::format("the NVIDIA driver is too old: it serves CUDA {} and has no {}; this lab "
                                  "was built with CUDA {}",
                                  version_text(driver.version), missing, version_text(CUDA_VERSION)),
                      fmt::format("install a driver that serves CUDA {} or later", version_text(CUDA_VERSION)));
  return driver;
}

Result<DeviceInfo> query_device() {
  KL_TRY(const Driver driver, Driver::get());
  int count = 0;
  CUresult error = driver.cuDeviceGetCount(&count);
  if (error != CUDA_SUCCESS) return error_of(error, "counting devices");
  if (count == 0)
    return make_error(Status::missing_runtime, "the NVIDIA driver shows no device",
                      "look at nvidia-smi and at CUDA_VISIBLE_DEVICES");
  DeviceInfo info;
  if (error = driver.cuDeviceGet(&info.handle, 0); error != CUDA_SUCCESS) return error_of(error, "device 0");
  char text[256] = {};
  if (driver.cuDeviceGetName(text, sizeof text, info.handle) == CUDA_SUCCESS) info.name = text;
  if (driver.cuDeviceGetPCIBusId(text, sizeof text, info.handle) == CUDA_SUCCESS) info.pci_bus_id = text;
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    driver.cuDeviceGetAttribute(&value, which, info.handle);
    return value;
  };
  info.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  info.threads_per_multiprocessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  info.persisting_l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  size_t memory = 0;
  if (driver.cuDeviceTotalMem(&memory, info.handle) == CUDA_SUCCESS) info.memory_bytes = static_cast<int64_t>(memory);
  return info;
}

}  // namespace

const Result<Driver>& Driver::get() {
  static const Result<Driver> driver = []() -> Result<Driver> {
    auto loaded = load();
    if (!loaded.ok()) return loaded;
    const CUresult error = loaded->cuInit(0);
    if (error != CUDA_SUCCESS) return not_initialised(*loaded, error);
    return loaded;
  }();
  return driver;
}

const Result<DeviceInfo>& device_info() {
  static const Result<DeviceInfo> info = query_device();
  return info;
}

std::string DeviceInfo::architecture() const { return fmt::format("sm_{}{}", major, minor); }

std::string describe(CUresult error) {
  const char *name = nullptr, *text = nullptr;
  // Before cuInit the driver is loaded all the same; without one only the number is known.
  if (void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
    const auto get_name = reinterpret_cast<decltype(&::cuGetErrorName)>(::dlsym(library, "cuGetErrorName"));
    const auto get_text = reinterpret_cast<decltype(&::cuGetErrorString)>(::dlsym(library, "cuGetErrorString"));
    if (get_name != nullptr) get_name(error, &name);
    if (get_text != nullptr) get_text(error, &text);
    ::dlclose(library);
  }
  if (name == nullptr) return fmt::format("CUDA error {}", static_cast<int>(error));
  return text == nullptr ? std::string(name) : fmt::format("{} ({})", name, text);
}

std::string version_text(int version) {
  return version <= 0 ? "unknown" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string_view rule_of(CUresult error) {
  switch (error) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE: return "kernel-fault";
    case CUDA_ERROR_LAUNCH_TIMEOUT: return "kernel-timeout";
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: return "launch-failed";
    case CUDA_ERROR_OUT_OF_MEMORY: return "out-of-memory";
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_IMAGE: return "wrong-architecture";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: return "not-capturable";
    default: return "device-error";
  }
}

bool is_sticky(CUresult error) {
  const std::string_view rule = rule_of(error);
  return rule == "kernel-fault" || rule == "kernel-timeout" || error == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
         error == CUDA_ERROR_DEINITIALIZED || error == CUDA_ERROR_UNKNOWN;
}

DeviceFault fault_of(CUresult error, std::string_view step) {
  return {Status::execution_failed, std::string(rule_of(error)), fmt::format("{}: {}", step, describe(error)),
          is_sticky(error)};
}

Error error_of(CUresult error, std::string_view step) {
  const char* remedy = rule_of(error) == "out-of-memory" ? "free device memory (nvidia-smi shows who holds it)"
                       : rule_of(error) == "wrong-architecture"
                           ? "build for this device: see KERNEL_LAB_CUDA_ARCH"
                           : "look at nvidia-smi";
  return make_error(error == CUDA_ERROR_NO_DEVICE ? Status::missing_runtime : Status::execution_failed,
                    fmt::format("{}: {}", step, describe(error)), remedy);
}

}  // namespace kl::cuda
