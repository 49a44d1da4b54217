#include <engines/cuda/plain_device.hpp>

#include <engines/cuda/context.hpp>

#include <fmt/format.h>

#include <vector>

namespace kl::cuda {
namespace {

Outcome checked(CUresult error, std::string_view step) {
  if (error == CUDA_SUCCESS) return {};
  return error_of(error, step);
}

// The primary context, which is the one a kernel's run-time uses, without the lab's own device
// code: the sanitizer would have to watch that too.
class CudaPlainDevice final : public PlainDevice {
 public:
  ~CudaPlainDevice() override {
    free_all();
    if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
    if (context_ != nullptr) driver_.cuDevicePrimaryCtxRelease(device_.handle);
  }

  Outcome open() {
    KL_TRY(driver_, Driver::get());
    KL_TRY(device_, device_info());
    KL_CHECK(
        checked(driver_.cuDevicePrimaryCtxRetain(&context_, device_.handle), "opening a context"));
    KL_CHECK(checked(driver_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"));
    return checked(driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
                   "making a stream");
  }

  DLDevice device() const override { return {kDLCUDA, 0}; }
  void* stream() const override { return stream_; }

  Result<void*> allocate(size_t bytes) override {
    if (bytes == 0) return static_cast<void*>(nullptr);
    DeviceMemory memory;
    KL_CHECK(
        checked(memory.allocate(driver_, bytes), fmt::format("{} bytes of device memory", bytes)));
    held_.push_back(std::move(memory));
    return reinterpret_cast<void*>(held_.back().at());
  }
  Outcome upload(void* to, std::span<const std::byte> from) override {
    KL_CHECK(checked(driver_.cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to), from.data(),
                                               from.size(), stream_),
                     "uploading a buffer"));
    return wait();
  }
  Outcome wait() override {
    return checked(driver_.cuStreamSynchronize(stream_), "waiting for the call");
  }
  void free_all() override { held_.clear(); }

 private:
  Driver driver_;
  DeviceInfo device_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::vector<DeviceMemory> held_;
};

}  // namespace

Result<std::unique_ptr<PlainDevice>> open_plain_device() {
  auto device = std::make_unique<CudaPlainDevice>();
  KL_CHECK(device->open());
  return std::unique_ptr<PlainDevice>(std::move(device));
}

}  // namespace kl::cuda
