#include <lab/core/folders_in_use.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <map>
#include <mutex>
#include <string>

namespace kl {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRandomLetters = 6;  // of mkdtemp
constexpr time_t kYoungSeconds = 60;

std::mutex mutex;
std::map<fs::path, int>& locks() {  // open files
  static std::map<fs::path, int> all;
  return all;
}

// A lock of the kernel's: it ends with the process, however that ends, and holds across containers.
int locked(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

bool is_one_of(const std::string& name, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) {
    return name.size() == prefix.size() + 1 + kRandomLetters && name.starts_with(prefix) && name[prefix.size()] == '-' &&
           std::all_of(name.end() - kRandomLetters, name.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  });
}

bool is_old_and_own(const fs::path& folder) {
  struct stat about {};
  return ::lstat(folder.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::geteuid() &&
         ::time(nullptr) - about.st_mtime > kYoungSeconds;
}

}  // namespace

void take_folder(const fs::path& folder) {
  const std::lock_guard guard(mutex);
  locks().emplace(folder, locked(folder));
}

void release_folder(const fs::path& folder) {
  const std::lock_guard guard(mutex);
  const auto it = locks().find(folder);
  if (it == locks().end()) return;
  if (it->second >= 0) ::close(it->second);
  locks().erase(it);
}

std::vector<fs::path> folders_in_use() {
  const std::lock_guard guard(mutex);
  std::vector<fs::path> folders;
  for (const auto& [folder, lock] : locks()) folders.push_back(folder);
  return folders;
}

void remove_stale_folders(std::span<const std::string_view> prefixes) {
  std::error_code code;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path(code), code))
    if (is_one_of(entry.path().filename().string(), prefixes) && is_old_and_own(entry.path())) stale.push_back(entry.path());
  for (const fs::path& folder : stale) {
    const int lock = locked(folder);
    if (lock < 0) continue;
    fs::remove_all(folder, code);
    ::close(lock);
  }
}

}  // namespace kl
