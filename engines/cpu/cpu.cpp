// The cpu engine: kernels are C++ compiled by the host's compiler for this very machine.
#include <engines/cpu/sanitizers.hpp>

#include <lab/core/cache_size.hpp>
#include <lab/core/fingerprint.hpp>
#include <lab/engine/engine.hpp>
#include <lab/engine/host_compiler.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl {
namespace {

// -march=native: a kernel is measured on the machine it was built on. Fused multiply-add is
// permitted (kernels are reorderings within an error bound); value-changing flags are not.
std::vector<std::string> kernel_flags(const CompileRequest& request) {
  std::vector<std::string> flags = {"-std=c++20",  "-O3",     "-march=native", "-ffp-contract=fast",
                                    "-fno-math-errno", "-fno-trapping-math", "-fopenmp",
                                    "-fPIC",       "-fvisibility=hidden", "-Wall",   "-Wextra"};
  // Sanitizers run code at load and have data of their own: their builds are linked as they need it.
  if (request.sanitizer.empty()) {
    flags.insert(flags.end(), kKernelLinkFlags.begin(), kKernelLinkFlags.end());
  } else {
    flags.insert(flags.end(), {"-shared", "-Wl,-z,defs", "-Wl,-z,now"});
    flags.push_back("-g");
    flags.push_back("-fno-omit-frame-pointer");
    flags.push_back("-fsanitize=" + request.sanitizer);
    if (request.sanitizer == "undefined") flags.push_back("-fno-sanitize-recover=undefined");
  }
  return flags;
}

class CpuEngine : public Engine {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string_view backend_family() const override { return "native"; }
  std::vector<std::string> kernel_files() const override { return {"kernel.cpp"}; }

  Outcome usable() const override {
    if (const auto& found = compiler(); !found.ok()) return found.error();
    return {};
  }

  std::vector<DoctorLine> doctor() const override {
    std::vector<DoctorLine> lines;
    lines.push_back({"cpu", Status::ok, fmt::format("{}, {} usable cores", cpu_model(), usable_cores()), ""});
    const auto& found = compiler();
    lines.push_back(found.ok() ? DoctorLine{"compiler", Status::ok, found->version(), ""}
                               : DoctorLine{"compiler", found.error().status, "", found.error().remedy});
    if (found.ok()) {
      const auto run_times = cpu::sanitizers();
      lines.push_back(run_times.ok() ? DoctorLine{"sanitizers", Status::ok, "address, undefined behaviour", ""}
                                     : DoctorLine{"sanitizers", run_times.error().status, run_times.error().what, run_times.error().remedy});
    }
    return lines;
  }

  Result<DeviceDescription> device() const override {
    KL_CHECK(usable());
    return DeviceDescription{cpu_model(), "", compiler()->version(), usable_cores(),
                             last_level_cache_bytes()};
  }

  Result<std::string> build_key(const CompileRequest& request) const override {
    KL_CHECK(usable());
    return fmt::format("{} | {} | {}", compiler()->version(), fmt::join(kernel_flags(request), " "),
                       cpu_model());
  }

  Result<CompileReport> compile(const CompileRequest& request) const override {
    KL_CHECK(usable());
    return compiler()->compile(request, kernel_flags(request));
  }

  Result<std::vector<Sanitizer>> sanitizers() const override { return cpu::sanitizers(); }
  bool can_deep_profile() const override { return true; }

 private:
  static const Result<HostCompiler>& compiler() {
    static const Result<HostCompiler> found = HostCompiler::find();
    return found;
  }
};

}  // namespace

namespace engines {
Engine& cpu() {
  static CpuEngine engine;
  return engine;
}
}  // namespace engines

}  // namespace kl
