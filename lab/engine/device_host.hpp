// The device's side of a worker: mirrors of the shared buffers in device memory, the stream a call
// is given, and what has to hold around the call. Lives in the worker, on the candidate's thread.
#pragma once

#include <lab/core/result.hpp>

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>

namespace kl {

// A rule broken or a device in error. After a fatal one the device's context is lost.
struct DeviceFault {
  Status status = Status::execution_failed;
  std::string rule;   // "side-stream", "late-write", "kernel-fault", "out-of-memory", …
  std::string proof;
  bool fatal = false;
};
template <class T>
using OrDeviceFault = std::variant<T, DeviceFault>;

enum class MirrorRole : uint8_t { input, output, saved, scratch };

struct DeviceRun {
  int64_t span_ns = 0;               // between two events around the call, less bracket_ns
  int64_t bracket_ns = 0;            // of an empty bracket
  int32_t code = 0;                  // what the call returned
  int32_t graph_nodes = -1;          // of the call captured; -1: it was not
  int64_t replay_differs_bytes = 0;  // output bytes by which the graph's replay differs
};

class DeviceHost {
 public:
  // Calls the kernel's `run` on this stream; gives its code and never throws.
  using Launch = std::function<int32_t(void* stream)>;

  virtual ~DeviceHost() = default;
  virtual DLDevice device() const = 0;
  // Once on every thread that calls anything below.
  virtual std::optional<DeviceFault> enter_thread() = 0;

  // A mirror of `bytes` at `host`, between guard zones that no kernel may touch.
  virtual std::optional<DeviceFault> add(int buffer, MirrorRole role, std::byte* host, size_t bytes) = 0;
  virtual std::optional<DeviceFault> clear() = 0;  // all mirrors and captured calls
  virtual void* address(int buffer) const = 0;

  // As Worker's functions of the same names (lab/worker/worker.hpp).
  virtual std::optional<DeviceFault> keep_pool(int buffer, DLDataType dtype) = 0;
  virtual std::optional<DeviceFault> draw(int buffer, int64_t rotation, double factor) = 0;
  virtual std::optional<DeviceFault> fill(int buffer, std::span<const std::byte> unit) = 0;
  virtual std::optional<DeviceFault> fetch(int buffer, size_t offset, size_t bytes) = 0;
  virtual std::optional<DeviceFault> fetch_replay(int buffer) = 0;

  // Uploads, runs, downloads, with every check; then once more behind a closed gate, and once more
  // as a graph. `buffers` are those the call is bound to.
  virtual OrDeviceFault<DeviceRun> run(std::span<const int> buffers, const Launch& launch) = 0;
  // Evicts the device's caches.
  virtual std::optional<DeviceFault> flush() = 0;
  // Contents as they lie on the device. The first run of a call is not hidden behind a gate; a short
  // call may be replayed as a graph from its second run on.
  virtual OrDeviceFault<DeviceRun> run_timed(int call, bool may_replay, const Launch& launch) = 0;
  // What a timed call must have left alone: guard zones, and inputs that were drawn.
  virtual std::optional<DeviceFault> check_after(std::span<const int> buffers) = 0;
};

}  // namespace kl
