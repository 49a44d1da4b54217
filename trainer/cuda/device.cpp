#include <trainer/cuda/device.hpp>

#include <cmath>

namespace kl::trainer::cuda {
namespace {

std::string megabytes(int64_t bytes) { return std::to_string((bytes + 999'999) / 1'000'000) + " MB"; }

Status status_of(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorNoKernelImageForDevice: return Status::missing_runtime;
    default: return Status::execution_failed;
  }
}

const char* remedy_of(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice: return "run on a machine with an NVIDIA GPU, or choose a preset of the cpu family";
    case cudaErrorInsufficientDriver:
      return "install an NVIDIA driver as new as CUDA " KL_CUDA_VERSION " asks for, or choose a preset of the cpu family";
    case cudaErrorSystemDriverMismatch: return "restart the machine after the driver's update";
    case cudaErrorSystemNotReady: return "start nvidia-fabricmanager";
    case cudaErrorNoKernelImageForDevice: return "the trainer's kernels are built for compute capability 9.0 and later";
    case cudaErrorMemoryAllocation: return "use fewer rows with more accumulation, or free the device";
    case cudaErrorDevicesUnavailable: return "another process holds the device exclusively: end it";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure: return "a kernel faulted: verify the kernels of the seams at these shapes";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
      return "a seam's kernel cannot be captured: it must launch on the given stream alone, and neither allocate nor synchronise";
    default: return "run kernel-lab doctor";
  }
}

}  // namespace

Outcome check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());  // what was reported must not be reported again
  return make_error(status_of(error),
                    "CUDA, " + what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")",
                    remedy_of(error));
}

Outcome require_device() {
  int driver = 0, devices = 0;
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return make_error(Status::missing_runtime, "CUDA: no NVIDIA driver is installed",
                      "install the NVIDIA driver, or choose a preset of the cpu family");
  KL_CHECK(check(cudaGetDeviceCount(&devices), "looking for a device"));
  return check(devices == 0 ? cudaErrorNoDevice : cudaSetDevice(0), "choosing device 0");
}

DeviceArena::~DeviceArena() {
  if (memory_ != nullptr) cudaFree(memory_);
}

Outcome DeviceArena::commit() {
  const std::string what = megabytes(bytes_) + " of device memory";
  KL_CHECK(check(cudaMalloc(reinterpret_cast<void**>(&memory_), static_cast<size_t>(bytes_)), what));
  KL_CHECK(check(cudaMemset(memory_, 0, static_cast<size_t>(bytes_)), what));
  for (const auto& [pointer, offset] : wanted_) *pointer = memory_ + offset;
  wanted_.clear();
  return check(cudaDeviceSynchronize(), what);
}

Result<int64_t> elapsed_ns(const Event& begin, const Event& end) {
  float milliseconds = 0;
  KL_CHECK(check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "the time between two events"));
  return static_cast<int64_t>(std::llround(static_cast<double>(milliseconds) * 1e6));
}

}  // namespace kl::trainer::cuda
