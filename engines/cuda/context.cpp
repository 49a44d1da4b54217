#include <engines/cuda/context.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kl::cuda {

extern const unsigned char kDeviceCode[];

Result<std::unique_ptr<Context>> Context::open() {
  KL_TRY(const Driver driver, Driver::get());
  KL_TRY(const DeviceInfo device, device_info());
  std::unique_ptr<Context> opened(new Context(driver, device));
  // Spinning: a host that sleeps adds its wake-up to everything that waits.
  driver.cuDevicePrimaryCtxSetFlags(device.handle, CU_CTX_SCHED_SPIN);
  CUresult error = driver.cuDevicePrimaryCtxRetain(&opened->context_, device.handle);
  if (error != CUDA_SUCCESS) return error_of(error, fmt::format("opening a context on {}", device.name));
  if (error = opened->make_current(); error != CUDA_SUCCESS) return error_of(error, "cuCtxSetCurrent");
  error = driver.cuModuleLoadData(&opened->module_, kDeviceCode);
  if (error != CUDA_SUCCESS)
    return error_of(error, fmt::format("loading the lab's device code on {} ({})", device.name, device.architecture()));
  return opened;
}

Context::~Context() {
  if (module_ != nullptr) driver_.cuModuleUnload(module_);
  if (context_ != nullptr) driver_.cuDevicePrimaryCtxRelease(device_.handle);
}

unsigned Context::blocks_for(uint64_t items) const {
  const uint64_t wanted = (items + kThreads * 4 - 1) / (kThreads * 4);
  const auto most = static_cast<uint64_t>(device_.multiprocessors) * 16;
  return static_cast<unsigned>(std::clamp<uint64_t>(wanted, 1, std::max<uint64_t>(most, 1)));
}

CUresult Context::launch_with(const char* name, unsigned blocks, unsigned threads, CUstream stream,
                              void** arguments) {
  CUfunction& function = functions_[name];
  if (function == nullptr)
    if (const CUresult error = driver_.cuModuleGetFunction(&function, module_, name); error != CUDA_SUCCESS)
      return error;
  return driver_.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr);
}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0) driver_->cuMemFree(address_);
}

CUresult DeviceMemory::allocate(const Driver& driver, size_t bytes) {
  DeviceMemory fresh;
  fresh.driver_ = &driver;
  const CUresult error = driver.cuMemAlloc(&fresh.address_, std::max<size_t>(bytes, 1));
  if (error != CUDA_SUCCESS) return error;
  fresh.bytes_ = bytes;
  swap(fresh);
  return CUDA_SUCCESS;
}

void DeviceMemory::swap(DeviceMemory& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
}

}  // namespace kl::cuda
