// The host's C++ compiler, making shared libraries: kernels of the cpu engine, oracles everywhere.
#pragma once

#include <lab/engine/engine.hpp>

namespace kl {

// How a kernel is linked: nothing undefined, everything relocated and then read-only, and without the
// start files, so that the library has no writable byte but what its source asks for.
inline const std::vector<std::string> kKernelLinkFlags = {"-shared", "-nostartfiles", "-Wl,-z,defs", "-Wl,-z,relro",
                                                          "-Wl,-z,now"};

class HostCompiler {
 public:
  // $KERNEL_LAB_CXX, else g++, c++ or clang++ on PATH. missing_tool with its remedy otherwise.
  static Result<HostCompiler> find();

  const std::string& program() const { return program_; }
  const std::string& version() const { return version_; }  // first line of --version

  // build_failed carries the compiler's own message, trimmed, naming the source by its path. A
  // kernel is one file: what it reads beyond the include folders and the compiler's own headers
  // (#include, .incbin) fails too, because no hash would cover it; so do the date and the time.
  Result<CompileReport> compile(const CompileRequest& request, std::vector<std::string> flags) const;

 private:
  std::string program_;
  std::string version_;
  std::vector<std::filesystem::path> search_folders_;  // where <header> is looked for
};

}  // namespace kl
