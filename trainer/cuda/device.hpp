// The device as the step sees it: memory planned once, and CUDA's errors as the trainer's.
#pragma once

#include <lab/core/result.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kl::trainer::cuda {

// `what` says what was tried; the remedy follows from the error.
Outcome check(cudaError_t error, const std::string& what);

// missing_runtime with its remedy when there is no driver, an old one, or no device.
Outcome require_device();

// One allocation of device memory: reserve first, then commit once. Blocks are 256-byte aligned.
class DeviceArena {
 public:
  DeviceArena() = default;
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;
  ~DeviceArena();
  template <class T>
  void reserve(T*& pointer, int64_t count) {
    wanted_.push_back({reinterpret_cast<void**>(&pointer), bytes_});
    bytes_ += (count * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
  }
  // Sets every pointer, to zeroed memory. execution_failed when the device has not that much.
  Outcome commit();
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<std::pair<void**, int64_t>> wanted_;
  int64_t bytes_ = 0;
  char* memory_ = nullptr;
};

// Page-locked host memory: a graph's copies read and write it at every replay.
template <class T>
class Pinned {
 public:
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() {
    if (data_ != nullptr) cudaFreeHost(data_);
  }
  Outcome allocate(int64_t count) {
    count_ = count;
    return check(cudaMallocHost(reinterpret_cast<void**>(&data_), bytes()), "page-locked host memory");
  }
  T* data() { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  size_t bytes() const { return static_cast<size_t>(count_) * sizeof(T); }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Outcome create() { return check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream"); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Outcome create() { return check(cudaEventCreate(&event_), "an event"); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

Result<int64_t> elapsed_ns(const Event& begin, const Event& end);

}  // namespace kl::trainer::cuda
