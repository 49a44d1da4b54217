// The smallest complete engine: the host compiler without optimisation. Copy this folder to
// engines/<name>, rename the function in kl::engines to <name>, and answer for your substrate.
#include <lab/core/fingerprint.hpp>
#include <lab/engine/engine.hpp>
#include <lab/engine/host_compiler.hpp>

namespace kl {
namespace {

class PlainEngine : public Engine {
 public:
  std::string_view name() const override { return "plain"; }
  std::string_view backend_family() const override { return "native"; }
  std::vector<std::string> kernel_files() const override { return {"kernel.cpp"}; }
  Outcome usable() const override {
    if (const auto compiler = HostCompiler::find(); !compiler.ok()) return compiler.error();
    return {};
  }
  std::vector<DoctorLine> doctor() const override {
    const auto compiler = HostCompiler::find();
    if (!compiler.ok()) return {{"compiler", compiler.error().status, "", compiler.error().remedy}};
    return {{"compiler", Status::ok, compiler->version(), ""}};
  }
  Result<DeviceDescription> device() const override {
    KL_TRY(const auto compiler, HostCompiler::find());
    return DeviceDescription{cpu_model(), "", compiler.version(), usable_cores(), 0};
  }
  Result<std::string> build_key(const CompileRequest&) const override {
    KL_TRY(const auto compiler, HostCompiler::find());
    return "plain " + compiler.version();
  }
  Result<CompileReport> compile(const CompileRequest& request) const override {
    KL_TRY(const auto compiler, HostCompiler::find());
    std::vector<std::string> flags = {"-std=c++20", "-O0", "-fopenmp", "-fPIC", "-fvisibility=hidden"};
    flags.insert(flags.end(), kKernelLinkFlags.begin(), kKernelLinkFlags.end());
    return compiler.compile(request, flags);
  }
};

}  // namespace

namespace engines {
Engine& plain() {
  static PlainEngine engine;
  return engine;
}
}  // namespace engines

}  // namespace kl
