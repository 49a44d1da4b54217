// The one loader of kernel and oracle libraries, used by worker and trainer alike.
#pragma once

#include <kernel_lab/kernel.h>
#include <kernel_lab/oracle.hpp>
#include <lab/core/result.hpp>
#include <lab/engine/engine.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

// What a library defines, needs and leaves undefined, read from the ELF file without loading it.
struct LibrarySymbols {
  std::vector<std::string> exported;
  std::vector<std::string> undefined;
  std::vector<std::string> needed;        // DT_NEEDED
  bool has_constructors = false;          // beyond what `run_time` says that the compiler brings
};
Result<LibrarySymbols> read_symbols(const std::filesystem::path& library, const RunTimeSymbols& run_time = {});

// A rule a library breaks before it ever runs: a second exported symbol, a needed object or an
// undefined symbol outside the permitted set (process control, dynamic loading, files, sockets,
// threads, signals, memory protection …). Empty when it breaks none. Each text names the symbol.
// `run_time` permits what an engine's kernels need beyond that.
std::vector<std::string> symbol_violations(const LibrarySymbols& symbols,
                                           const RunTimeSymbols& run_time = {});

class KernelLibrary {
 public:
  // load_failed when the file does not load, exports no kl_kernel, or speaks another ABI version
  // or target (`target` empty: any).
  static Result<KernelLibrary> load(const std::filesystem::path& path, std::string_view target);
  KernelLibrary(KernelLibrary&&) noexcept;
  KernelLibrary& operator=(KernelLibrary&&) noexcept;
  ~KernelLibrary();
  const kl_kernel_table& table() const { return *table_; }

 private:
  KernelLibrary(void* handle, const kl_kernel_table* table) : handle_(handle), table_(table) {}
  void* handle_ = nullptr;
  const kl_kernel_table* table_ = nullptr;
};

class OracleLibrary {
 public:
  static Result<OracleLibrary> load(const std::filesystem::path& path, std::string_view target);
  OracleLibrary(OracleLibrary&&) noexcept;
  OracleLibrary& operator=(OracleLibrary&&) noexcept;
  ~OracleLibrary();
  const oracle::OracleTable& table() const { return *table_; }

 private:
  OracleLibrary(void* handle, const oracle::OracleTable* table) : handle_(handle), table_(table) {}
  void* handle_ = nullptr;
  const oracle::OracleTable* table_ = nullptr;
};

}  // namespace kl
