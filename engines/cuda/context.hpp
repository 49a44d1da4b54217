// The device's primary context with the lab's own device code in it.
#pragma once

#include <engines/cuda/driver.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace kl::cuda {

class Context {
 public:
  // Errors as Driver::get and device_info; out of memory and wrong architecture by name.
  static Result<std::unique_ptr<Context>> open();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const { return driver_; }
  const DeviceInfo& device() const { return device_; }
  CUresult make_current() const { return driver_.cuCtxSetCurrent(context_); }

  // A grid that covers `items` elements, each thread taking several.
  unsigned blocks_for(uint64_t items) const;
  template <class... Arguments>
  CUresult launch(const char* name, unsigned blocks, unsigned threads, CUstream stream, Arguments... arguments) {
    void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
    return launch_with(name, blocks, threads, stream, pointers);
  }
  // Elements of device_code.cu's grid-stride kernels.
  static constexpr unsigned kThreads = 256;

 private:
  Context(const Driver& driver, const DeviceInfo& device) : driver_(driver), device_(device) {}
  CUresult launch_with(const char* name, unsigned blocks, unsigned threads, CUstream stream, void** arguments);

  Driver driver_;
  DeviceInfo device_;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  std::map<std::string, CUfunction> functions_;
};

// Memory of the device, freed with the object.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();
  // Frees what it held.
  CUresult allocate(const Driver& driver, size_t bytes);
  CUdeviceptr at(size_t offset = 0) const { return address_ + offset; }
  size_t bytes() const { return bytes_; }
  bool empty() const { return address_ == 0; }

 private:
  void swap(DeviceMemory& other) noexcept;
  const Driver* driver_ = nullptr;
  CUdeviceptr address_ = 0;
  size_t bytes_ = 0;
};

}  // namespace kl::cuda
