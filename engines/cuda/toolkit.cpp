#include <engines/cuda/toolkit.hpp>

#include <engines/cuda/driver.hpp>

#include <lab/core/process.hpp>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <regex>

namespace kl::cuda {
namespace {

namespace fs = std::filesystem;

fs::path on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string all = path == nullptr ? "" : path;
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find(':', begin), all.size());
    const fs::path file = fs::path(all.substr(begin, end - begin)) / name;
    std::error_code code;
    if (end > begin && fs::is_regular_file(file, code) && ::access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return {};
}

std::vector<fs::path> nvcc_candidates() {
  std::vector<fs::path> list;
  if (const char* chosen = std::getenv("CUDACXX"); chosen != nullptr && *chosen != '\0') {
    const fs::path named(chosen);
    list.push_back(named.has_parent_path() ? named : on_path(named));
  }
  list.push_back(on_path("nvcc"));
  list.push_back("/usr/local/cuda/bin/nvcc");
  list.push_back(fs::path(KL_CUDA_TOOLKIT_FOLDER) / "nvcc");
  return list;
}

Result<Toolkit> search() {
  std::error_code code;
  for (const fs::path& nvcc : nvcc_candidates()) {
    if (nvcc.empty() || !fs::exists(nvcc, code)) continue;
    const auto run = run_process({.arguments = {nvcc.string(), "--version"}, .timeout_seconds = 60});
    if (!run.ok() || !run->ok()) continue;
    Toolkit found;
    found.nvcc = nvcc;
    found.version = version_of_nvcc(run->out);
    if (found.version.empty()) continue;
    found.major = std::atoi(found.version.c_str());
    found.minor = std::atoi(found.version.c_str() + found.version.find('.') + 1);
    const fs::path root = fs::canonical(nvcc, code).parent_path().parent_path();
    for (const char* folder : {"include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"})
      if (found.include.empty() && fs::exists(root / folder / "cuda_runtime.h", code)) found.include = root / folder;
    return found;
  }
  return make_error(Status::missing_tool, "no CUDA toolkit: nvcc was not found",
                    "install the CUDA toolkit, or name its compiler in CUDACXX");
}

std::vector<fs::path> tool_folders() {
  std::vector<fs::path> folders;
  std::error_code code;
  if (const auto& toolkit = Toolkit::find(); toolkit.ok()) {
    folders.push_back(toolkit->nvcc.parent_path());
    folders.push_back(fs::canonical(toolkit->nvcc, code).parent_path());
    folders.push_back(folders.back().parent_path() / "compute-sanitizer");
  }
  folders.push_back("/usr/local/cuda/bin");
  folders.push_back("/usr/local/cuda/compute-sanitizer");
  for (const char* root : {"/opt/nvidia/nsight-compute", "/opt/nvidia/nsight-systems"})
    for (fs::directory_iterator it(root, code), end; !code && it != end; it.increment(code)) {
      folders.push_back(it->path());
      folders.push_back(it->path() / "bin");
    }
  return folders;
}

}  // namespace

std::string version_of_nvcc(const std::string& said) {
  std::smatch found;
  if (std::regex_search(said, found, std::regex(R"(release \d+\.\d+, V(\d+\.\d+(\.\d+)?))"))) return found[1];
  return {};
}

const Result<Toolkit>& Toolkit::find() {
  static const Result<Toolkit> found = search();
  return found;
}

void* open_library(const std::string& name) {
  if (const auto& toolkit = Toolkit::find(); toolkit.ok()) {
    std::error_code code;
    const fs::path root = fs::canonical(toolkit->nvcc, code).parent_path().parent_path();
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib", "extras/CUPTI/lib64"})
      if (const fs::path file = root / folder / name; fs::exists(file, code))
        if (void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
}

fs::path find_program(const std::string& name) {
  if (fs::path found = on_path(name); !found.empty()) return found;
  std::error_code code;
  for (const fs::path& folder : tool_folders())
    if (fs::exists(folder / name, code)) return folder / name;
  return {};
}

Result<std::string> architecture_named(const std::string& text) {
  std::smatch found;
  if (std::regex_match(text, found, std::regex(R"((?:sm_|compute_)?(\d+)\.?(\d)([af]?))")))
    return "sm_" + found[1].str() + found[2].str() + found[3].str();
  return make_error(Status::usage, fmt::format("KERNEL_LAB_CUDA_ARCH is '{}'", text),
                    "name an architecture as nvcc does: sm_90, sm_90a, sm_100");
}

std::string target_architecture() {
  if (const char* chosen = std::getenv("KERNEL_LAB_CUDA_ARCH"); chosen != nullptr && *chosen != '\0') {
    const auto named = architecture_named(chosen);
    return named.ok() ? *named : std::string(chosen);
  }
  const auto& device = device_info();
  return device.ok() ? device->architecture() : "sm_90";
}

}  // namespace kl::cuda
