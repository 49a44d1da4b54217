// The parent's side of kernel-lab-worker, the process that hosts a candidate.
//
// The parent owns every tensor in shared memory (memfd), brackets every call with its own clock and
// judges; the worker only does what it is told over a socket pair, under limits (Landlock, seccomp,
// no_new_privs, rlimits). Whatever the candidate does, the parent goes on with a named fault.
#pragma once

#include <lab/core/result.hpp>

#include <dlpack/dlpack.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kl {

// Why a worker stopped, or what rule its candidate broke. `status` is rejected, execution_failed,
// timed_out, load_failed or build_failed; `rule` is a short stable name ("late-write",
// "writes-input", "out-of-bounds", "child-process", "new-thread", "floating-point-state",
// "forbidden-syscall", "output-flood", "early-exit", "crash", "hang", "scratch-overflow", …).
struct Fault {
  Status status = Status::execution_failed;
  std::string rule;
  std::string proof;  // what was seen, with values
};

template <class T>
using OrFault = std::variant<T, Fault>;

struct WorkerLimits {
  double call_seconds = 30;              // one command, after which the worker is killed: "hang"
  int64_t memory_bytes = int64_t{6} << 30;
  int threads = 0;                       // OpenMP threads; 0: all cores this process may use
  size_t printed_bytes = 16u << 20;      // beyond which the worker is killed: "output-flood"
  std::string device;                    // engine whose device memory the calls see; "": the host's
};

enum class BufferRole : uint8_t { input, output, saved, scratch };

using BufferId = int;
using ArmId = int;   // a loaded kernel library
using CallId = int;  // a prepared call

// A tensor of a call: a buffer seen through shape and strides (elements). An absent optional input
// has buffer -1 and no shape.
struct TensorBinding {
  BufferId buffer = -1;
  DLDataType dtype{kDLFloat, 32, 1};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // empty: packed
  int64_t byte_offset = 0;
};

struct CallBinding {
  int operation = 0;
  std::vector<TensorBinding> inputs, outputs;
  std::vector<double> scalars;
  BufferId saved = -1;
  BufferId scratch = -1;
};

struct Domain {
  bool accepted = false;
  std::string why_not;
  size_t scratch_bytes = 0;
  size_t saved_bytes = 0;
};

struct CallTiming {
  int64_t worker_ns = 0;  // around `run`, by the worker's clock
  int64_t parent_ns = 0;  // around the whole command, by the parent's clock
  int64_t processor_ns = 0;  // used by all threads of the worker inside the bracket, less the host's
  int32_t code = 0;       // what `run` returned
  std::string text;
  // On a device, where worker_ns is the span between two events there.
  int64_t bracket_ns = 0;            // of an empty bracket; already taken off worker_ns
  int32_t graph_nodes = -1;          // `run` captured into a graph; -1: this call was not
  int64_t replay_differs_bytes = 0;  // output bytes by which the graph's replay differs from `run`
};

// What of the limits could be applied on this machine; recorded with every verdict.
struct Confinement {
  bool landlock = false;
  bool seccomp = false;
  bool no_new_privs = false;
  bool outputs_locked = false;  // outputs become read-only when `run` returns
  std::string relaxed;          // what a device's driver needs, and so is not forbidden
};

class Worker {
 public:
  virtual ~Worker() = default;  // kills and reaps whatever is left
  // The worker dies with the thread that started it: start it on one that outlives it.
  static OrFault<std::unique_ptr<Worker>> start(const WorkerLimits& limits);

  virtual const Confinement& confinement() const = 0;
  virtual int process_id() const { return -1; }
  // `services`: what the target's spec lets its kernels borrow.
  virtual OrFault<ArmId> load(const std::filesystem::path& library, std::string_view target,
                              std::span<const std::string> services = {}) = 0;

  // Shared memory between guard pages, end-aligned so that the first byte past the end faults;
  // the slack before it is filled with a canary. Inputs are mapped read-only in the worker.
  virtual OrFault<BufferId> add_buffer(BufferRole role, size_t bytes) = 0;
  virtual OrFault<std::monostate> drop_buffers() = 0;  // all buffers and calls; arms stay
  virtual std::byte* data(BufferId buffer) = 0;        // the parent's own mapping
  virtual size_t size(BufferId buffer) const = 0;

  virtual OrFault<Domain> domain(ArmId arm, const CallBinding& call) = 0;  // data not yet bound
  virtual OrFault<CallId> prepare(ArmId arm, const CallBinding& call) = 0;
  // Runs once: unlocks outputs, calls, locks outputs, checks floating-point state, threads,
  // children and canaries. A broken rule is a Fault; an error code of the kernel is in CallTiming.
  virtual OrFault<CallTiming> run(CallId call) = 0;
  virtual OrFault<std::monostate> flush_caches() = 0;
  // As run, with the caches flushed before (cold) and no checks beyond the cheap ones.
  virtual OrFault<CallTiming> run_timed(CallId call, bool cold) = 0;

  // Contents made where the call sees them. On the host mapping and contents are one memory. On a
  // device `run` uploads the mapping before and downloads outputs and saved after, of those buffers
  // only that were never drawn or filled; of the others the mapping shows what `fetch` brings.
  //
  // What the mapping holds now becomes the buffer's private pool.
  virtual OrFault<std::monostate> keep_pool(BufferId buffer, DLDataType dtype) = 0;
  // buffer[i] = pool[(i + rotation) mod n] * factor, as draw_from_pool (draw.hpp) says.
  virtual OrFault<std::monostate> draw(BufferId buffer, int64_t rotation, double factor) = 0;
  // Repeats `unit` (1, 2, 4 or 8 bytes) over the buffer: one element of poison.
  virtual OrFault<std::monostate> fill(BufferId buffer, std::span<const std::byte> unit) = 0;
  virtual OrFault<std::monostate> fetch(BufferId buffer, size_t offset, size_t bytes) = 0;
  // Into the mapping: an output as the graph's replay of the last `run` left it. On the host, where
  // nothing is replayed, as `run` left it.
  virtual OrFault<std::monostate> fetch_replay(BufferId buffer) = 0;

  // Resident bytes, open files and threads of the worker now, for leak checks.
  struct Footprint {
    int64_t resident_bytes = 0;
    int open_files = 0;
    int threads = 0;
  };
  virtual OrFault<Footprint> footprint() = 0;
  virtual std::string printed() const = 0;  // what the candidate wrote to stdout and stderr, capped
};

}  // namespace kl
