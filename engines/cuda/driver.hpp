// The CUDA driver, loaded at run time: the programs start on machines that have none.
#pragma once

#include <lab/core/result.hpp>
#include <lab/engine/device_host.hpp>

#include <cuda.h>

#include <string>
#include <string_view>

namespace kl::cuda {

// Every entry of the driver this engine calls. The header's macros give the versioned name.
#define KL_CUDA_ENTRIES(X)                                                                       \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString)                          \
  X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute)                  \
  X(cuDeviceGetPCIBusId) X(cuDeviceTotalMem)                                                     \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxSetFlags)         \
  X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuCtxResetPersistingL2Cache) X(cuCtxGetLimit)          \
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel)                 \
  X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemHostAlloc) X(cuMemFreeHost)                  \
  X(cuMemHostGetDevicePointer) X(cuMemcpyDtoH) X(cuMemcpyDtoDAsync)              \
  X(cuMemsetD8Async) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync)                                   \
  X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery)       \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamIsCapturing) X(cuStreamGetAttribute)   \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize)      \
  X(cuEventElapsedTime)                                                                          \
  X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphGetNodes) X(cuGraphDestroy)           \
  X(cuGraphExecDestroy) X(cuGraphUpload)

struct Driver {
#define KL_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  KL_CUDA_ENTRIES(KL_CUDA_MEMBER)
#undef KL_CUDA_MEMBER

  int version = 0;  // 13000: the newest CUDA that this driver serves

  // Loaded and initialised once. missing_runtime: no driver, too old a driver, no device (each with
  // its remedy); no_permission: the device files may not be opened.
  static const Result<Driver>& get();
};

// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
std::string describe(CUresult error);
std::string version_text(int version);  // 13000 → "13.0"

// What an error of the driver means for whoever runs a kernel: kernel-fault, launch-failed,
// out-of-memory, wrong-architecture, not-capturable, or device-error.
std::string_view rule_of(CUresult error);
bool is_sticky(CUresult error);  // the context is lost
DeviceFault fault_of(CUresult error, std::string_view step);
Error error_of(CUresult error, std::string_view step);

// The device the engine uses: the first that CUDA_VISIBLE_DEVICES shows.
struct DeviceInfo {
  CUdevice handle = 0;
  std::string name;
  std::string pci_bus_id;  // "0000:19:00.0"
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
  int threads_per_multiprocessor = 0;
  int persisting_l2_bytes = 0;
  std::string architecture() const;  // "sm_90"
};
const Result<DeviceInfo>& device_info();

}  // namespace kl::cuda
