#include <lab/core/installation.hpp>

#include <lab/core/files.hpp>
#include <lab/core/process.hpp>

#include <cstdlib>

namespace kl {
namespace {

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

Installation Installation::find() {
  const std::string home = environment_value("KERNEL_LAB_HOME");
  const fs::path root = home.empty() ? executable_folder().parent_path() : fs::path(home);
  const fs::path share = root / "share" / "kernel-lab";
  return {root / "bin", share / "include", share / "targets", share / "presets",
          share / "examples"};
}

std::vector<fs::path> target_search_path(const std::vector<fs::path>& extra) {
  std::vector<fs::path> result = extra;
  std::error_code code;
  if (fs::is_directory("targets", code)) result.push_back(fs::absolute("targets", code));
  result.push_back(Installation::find().targets);
  return result;
}

fs::path cache_folder() {
  if (const auto own = environment_value("KERNEL_LAB_CACHE"); !own.empty()) return own;
  if (const auto xdg = environment_value("XDG_CACHE_HOME"); !xdg.empty()) return fs::path(xdg) / "kernel-lab";
  if (const auto home = environment_value("HOME"); !home.empty())
    return fs::path(home) / ".cache" / "kernel-lab";
  return fs::temp_directory_path() / "kernel-lab-cache";
}

}  // namespace kl
