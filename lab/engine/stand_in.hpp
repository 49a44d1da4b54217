// An engine whose toolchain is not in this build: it lists, and answers everything else with what
// is missing.
#pragma once

#include <lab/engine/engine.hpp>

namespace kl {

class StandIn : public Engine {
 public:
  StandIn(std::string name, std::string missing, std::string remedy)
      : name_(std::move(name)), missing_(std::move(missing)), remedy_(std::move(remedy)) {}
  std::string_view name() const override { return name_; }
  std::string_view backend_family() const override { return "none"; }
  std::vector<std::string> kernel_files() const override { return {}; }
  Outcome usable() const override { return absent(); }
  std::vector<DoctorLine> doctor() const override {
    return {{"engine", Status::missing_tool, missing_, remedy_}};
  }
  Result<DeviceDescription> device() const override { return absent(); }
  Result<std::string> build_key(const CompileRequest&) const override { return absent(); }
  Result<CompileReport> compile(const CompileRequest&) const override { return absent(); }

 private:
  Error absent() const { return make_error(Status::missing_runtime, missing_, remedy_); }
  std::string name_, missing_, remedy_;
};

}  // namespace kl
