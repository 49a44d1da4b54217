// Mirrors of a worker's shared buffers in device memory: between guard zones, with the private pools
// that their contents are drawn from.
#pragma once

#include <engines/cuda/context.hpp>

#include <lab/engine/device_host.hpp>

#include <map>
#include <optional>
#include <span>

namespace kl::cuda {

struct Mirror {
  MirrorRole role = MirrorRole::input;
  std::byte* host = nullptr;
  size_t bytes = 0;
  DeviceMemory memory;   // guard, data (256-byte aligned), guard
  DeviceMemory before;   // contents before the last checked run; afterwards the replay's
  DeviceMemory after;    // contents after it
  bool made_here = false;  // drawn or filled: `run` uploads nothing
  DeviceMemory pool;
  DLDataType pool_type{kDLFloat, 32, 1};
  bool drawn = false;      // since then, contents are those of this draw
  int64_t rotation = 0;
  double factor = 1;

  CUdeviceptr data() const;
  bool is_written() const { return role != MirrorRole::input; }
};

// Counts and first places of differences, found by kernels.
class Findings {
 public:
  struct Finding {
    uint64_t count = 0;
    uint64_t first = 0;
  };
  CUresult create(Context& context);
  CUresult reset(CUstream stream);
  // Address for the next kernel to report to.
  CUdeviceptr next();
  // What was reported since `reset`, in order. Waits for the stream.
  CUresult read(CUstream stream, std::vector<Finding>& findings);

 private:
  static constexpr size_t kMost = 256;
  Context* context_ = nullptr;
  DeviceMemory memory_;
  size_t used_ = 0;
};

class Mirrors {
 public:
  CUresult create(Context& context);

  std::optional<DeviceFault> add(int id, MirrorRole role, std::byte* host, size_t bytes, CUstream stream);
  void clear() { mirrors_.clear(); }
  Mirror* find(int id);
  const Mirror* find(int id) const { return const_cast<Mirrors*>(this)->find(id); }

  std::optional<DeviceFault> keep_pool(int id, DLDataType dtype, CUstream stream);
  std::optional<DeviceFault> draw(int id, int64_t rotation, double factor, CUstream stream);
  std::optional<DeviceFault> fill(int id, std::span<const std::byte> unit, CUstream stream);

  // A byte of a guard zone that changed.
  std::optional<DeviceFault> broken_guard(CUstream stream);
  // A drawn input that is no longer what was drawn.
  std::optional<DeviceFault> changed_input(std::span<const int> ids, CUstream stream);
  // Differing bytes of `a` and `b`.
  CUresult compare(CUdeviceptr a, CUdeviceptr b, size_t bytes, CUstream stream, Findings::Finding& finding);

  std::string name(int id) const;

 private:
  Context* context_ = nullptr;
  std::map<int, Mirror> mirrors_;
  Findings findings_;
};

}  // namespace kl::cuda
