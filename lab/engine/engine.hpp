// What an engine provides: everything that is special to one kernel substrate. Cases, verdicts,
// ledger, flow and reports are shared and never look behind this interface.
#pragma once

#include <lab/core/result.hpp>
#include <lab/engine/ceilings.hpp>
#include <lab/engine/device_host.hpp>
#include <lab/engine/device_readings.hpp>
#include <lab/engine/plain_device.hpp>
#include <lab/engine/sanitizer.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

struct CompileRequest {
  std::filesystem::path source;
  std::filesystem::path output;                     // the shared library to write
  std::vector<std::filesystem::path> include_dirs;  // kernel_lab/ and dlpack/ live there
  std::string sanitizer;                            // "", "address", "undefined"
  std::filesystem::path shown_as;                   // what messages call the source; empty: its path
  // The kernel alone, written by an engine that links a run-time into `output`: what it leaves
  // undefined is what the kernel itself calls. Empty: not wanted.
  std::filesystem::path bare_output;
};

// What kernels of an engine may use, and what its compiler puts into a library, beyond the host's.
struct RunTimeSymbols {
  std::vector<std::string> functions;
  int load_functions = 0;    // functions its compiler runs when the library is loaded
  bool linked_in = false;    // `compile` writes CompileRequest::bare_output
  bool start_files = false;  // linked with the compiler's start files, which have writable data
  // Writable objects that its compiler adds by itself, by the symbol's name.
  bool (*is_compilers_object)(std::string_view symbol) = nullptr;
};

// What the compiler said about the kernel, shown beside every bench.
struct CompileReport {
  std::string compiler;               // name and version
  std::vector<std::string> flags;
  std::vector<std::string> notes;     // vectorised and missed loops, registers, spills
  double seconds = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("compiler", self.compiler, "name and version");
    v("flags", self.flags, "as passed");
    v("notes", self.notes, "what the compiler did: vectorised loops, registers, spills");
    v("seconds", self.seconds, "time to compile");
  }
};

struct DoctorLine {
  std::string name;      // "compiler"
  Status status;         // ok, missing_tool, missing_runtime, no_permission
  std::string found;     // version or value
  std::string remedy;    // exact, when not ok

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("name", self.name, "what was looked at");
    v("status", self.status, "ok, or what is missing");
    v("found", self.found, "version or value");
    v("remedy", self.remedy, "what to do, when not ok");
  }
};

struct DeviceDescription {
  std::string name;     // CPU or GPU model
  std::string driver;   // major version; empty on cpu
  std::string toolkit;  // compiler or toolkit version
  int units = 0;        // cores or SMs this process may use
  int64_t last_level_cache_bytes = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view backend_family() const = 0;  // "native", "nvidia", "amd", "apple"
  // Kernel file names this engine compiles, most specific first: {"kernel.sm90.cu", "kernel.cu"}.
  virtual std::vector<std::string> kernel_files() const = 0;
  // Names of the plain kernel's file, likewise.
  virtual std::vector<std::string> reference_files() const { return {"reference.cpp"}; }
  virtual RunTimeSymbols run_time_symbols() const { return {}; }
  // ok, or why this engine cannot run here (missing_runtime, missing_tool) with its remedy.
  virtual Outcome usable() const = 0;
  virtual std::vector<DoctorLine> doctor() const = 0;
  virtual Result<DeviceDescription> device() const = 0;
  // Compiler, flags and device as one string: part of a library's cache key and identity.
  virtual Result<std::string> build_key(const CompileRequest& request) const = 0;
  // build_failed carries the compiler's own message, trimmed, with the path.
  virtual Result<CompileReport> compile(const CompileRequest& request) const = 0;

  // Calls see host memory unless the engine opens a device for the worker (empty pointer). Errors:
  // missing_runtime, no_permission, missing_tool with their remedy.
  virtual Result<std::unique_ptr<DeviceHost>> open_device_host() const {
    return std::unique_ptr<DeviceHost>();
  }
  // What the device says of itself now; nothing where there is no device to ask.
  virtual std::optional<DeviceReadings> readings() const { return std::nullopt; }
  // The tools for verify --sanitize, cheapest first; missing_tool with its remedy where there are none.
  virtual Result<std::vector<Sanitizer>> sanitizers() const {
    return make_error(Status::missing_tool, "no sanitizer for engine " + std::string(name()),
                      "use an engine that has one: cpu or cuda");
  }
  // Memory for a run under them, where calls see a device's (empty pointer: the host's heap).
  virtual Result<std::unique_ptr<PlainDevice>> open_plain_device() const {
    return std::unique_ptr<PlainDevice>();
  }
  // Probes of the device; nothing where the host's own probes are the right ones.
  virtual Result<std::optional<DeviceCeilings>> ceilings(const CeilingRequest&) const {
    return std::optional<DeviceCeilings>();
  }
  // deep-profile has counters or a roofline for this engine's kernels.
  virtual bool can_deep_profile() const { return false; }
};

// All engines of this build, in the order of engines/*/ (generated by CMake).
std::span<Engine* const> all_engines();
// Near matches in the error.
Result<Engine*> find_engine(std::string_view name);
// cuda where it is usable, mlx on macOS/arm64, else cpu.
Engine& default_engine();

}  // namespace kl
