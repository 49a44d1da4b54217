#include <lab/build/loader.hpp>

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

namespace kl {
namespace {

struct Opened {
  void* handle;
  const void* symbol;
};

Result<Opened> open_symbol(const std::filesystem::path& path, const char* symbol) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return make_error(Status::load_failed, fmt::format("{} does not load: {}", path.string(), ::dlerror()),
                      "build it again; the message names what is missing");
  const void* found = ::dlsym(handle, symbol);
  if (found == nullptr) {
    ::dlclose(handle);
    return make_error(Status::load_failed, fmt::format("{} exports no {}", path.string(), symbol),
                      "end the source with KL_EXPORT_KERNEL(…) (kernels) or KL_EXPORT_ORACLE(…)");
  }
  return Opened{handle, found};
}

Error wrong_library(void* handle, std::string what, std::string remedy) {
  ::dlclose(handle);
  return make_error(Status::load_failed, std::move(what), std::move(remedy));
}

void close_handle(void* handle) {
  if (handle != nullptr) ::dlclose(handle);
}

}  // namespace

Result<KernelLibrary> KernelLibrary::load(const std::filesystem::path& path, std::string_view target) {
  KL_TRY(const Opened opened, open_symbol(path, "kl_kernel"));
  const auto* table = static_cast<const kl_kernel_table*>(opened.symbol);
  if (table->abi_version != KL_ABI_VERSION || table->struct_bytes < sizeof(kl_kernel_table))
    return wrong_library(opened.handle,
                         fmt::format("{} speaks kernel ABI {} ({} bytes), this lab speaks {} ({} bytes)",
                                     path.string(), table->abi_version, table->struct_bytes,
                                     KL_ABI_VERSION, sizeof(kl_kernel_table)),
                         "build it against this lab's kernel_lab/kernel.h");
  if (table->target == nullptr || (!target.empty() && table->target != target))
    return wrong_library(opened.handle,
                         fmt::format("{} is a kernel for '{}', not for '{}'", path.string(),
                                     table->target == nullptr ? "" : table->target, target),
                         "name the target's key in KL_EXPORT_KERNEL");
  if (table->accepts == nullptr || table->scratch_bytes == nullptr || table->saved_bytes == nullptr ||
      table->prepare == nullptr || table->run == nullptr)
    return wrong_library(opened.handle, fmt::format("{}: kl_kernel has an empty entry", path.string()),
                         "give every function of KL_EXPORT_KERNEL");
  return KernelLibrary(opened.handle, table);
}

KernelLibrary::KernelLibrary(KernelLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), table_(std::exchange(other.table_, nullptr)) {}
KernelLibrary& KernelLibrary::operator=(KernelLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(table_, other.table_);
  return *this;
}
KernelLibrary::~KernelLibrary() { close_handle(handle_); }

Result<OracleLibrary> OracleLibrary::load(const std::filesystem::path& path, std::string_view target) {
  KL_TRY(const Opened opened, open_symbol(path, "kl_oracle"));
  const auto* table = static_cast<const oracle::OracleTable*>(opened.symbol);
  if (table->struct_bytes < sizeof(oracle::OracleTable) || table->target == nullptr ||
      table->evaluate == nullptr || table->cost == nullptr)
    return wrong_library(opened.handle, fmt::format("{}: kl_oracle is of another version", path.string()),
                         "build it against this lab's kernel_lab/oracle.hpp");
  if (!target.empty() && table->target != target)
    return wrong_library(opened.handle,
                         fmt::format("{} is the oracle of '{}', not of '{}'", path.string(), table->target, target),
                         "name the target's key in KL_EXPORT_ORACLE");
  return OracleLibrary(opened.handle, table);
}

OracleLibrary::OracleLibrary(OracleLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), table_(std::exchange(other.table_, nullptr)) {}
OracleLibrary& OracleLibrary::operator=(OracleLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(table_, other.table_);
  return *this;
}
OracleLibrary::~OracleLibrary() { close_handle(handle_); }

}  // namespace kl
