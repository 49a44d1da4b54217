#include <lab/core/files.hpp>

#include <lab/core/folders_in_use.hpp>
#include <lab/core/hash.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace kl {
namespace {

Error file_error(std::string_view action, const fs::path& path, int code) {
  std::string remedy = "check that the path exists and is writable by you";
  if (code == ENOSPC || code == EDQUOT) remedy = "free some space on that disk and run again";
  if (code == ENOENT) remedy = "check the path";
  if (code == EROFS) remedy = "that file system is read-only: choose another folder";
  const bool forbidden = code == EACCES || code == EPERM || code == EROFS;
  return make_error(forbidden ? Status::no_permission : Status::error,
                    fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(code)),
                    std::move(remedy));
}

}  // namespace

Result<std::string> read_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file_error("read", path, errno);
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n == 0) break;
    if (n < 0) {
      if (errno == EINTR) continue;
      const int code = errno;
      ::close(fd);
      return file_error("read", path, code);
    }
    content.append(buffer, static_cast<size_t>(n));
  }
  ::close(fd);
  return content;
}

Outcome make_directories(const fs::path& path) {
  if (path.empty()) return {};
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return file_error("create the folder", path, code.value());
  return {};
}

Outcome write_file_atomic(const fs::path& path, std::string_view content) {
  KL_CHECK(make_directories(path.parent_path()));
  std::string beside = path.string() + ".XXXXXX";
  const int fd = ::mkostemp(beside.data(), O_CLOEXEC);
  if (fd < 0) return file_error("write", path, errno);
  const auto fail = [&](int code) {
    ::close(fd);
    ::unlink(beside.c_str());
    return file_error("write", path, code);
  };
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno);
    done += static_cast<size_t>(n);
  }
  struct stat old {};
  const mode_t mode = ::stat(path.c_str(), &old) == 0 ? (old.st_mode & 07777) : 0644;
  if (::fchmod(fd, mode) != 0 || ::fsync(fd) != 0) return fail(errno);
  if (::close(fd) != 0) return file_error("write", path, errno);
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const int code = errno;
    ::unlink(beside.c_str());
    return file_error("write", path, code);
  }
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (const int dir = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
  return {};
}

Result<TemporaryFolder> TemporaryFolder::create(std::string_view prefix) {
  std::error_code code;
  const fs::path base = fs::temp_directory_path(code);
  if (code) return file_error("find a temporary folder at", "TMPDIR", code.value());
  std::string name = (base / fmt::format("{}-XXXXXX", prefix)).string();
  if (::mkdtemp(name.data()) == nullptr) return file_error("create", name, errno);
  take_folder(name);
  return TemporaryFolder(fs::path(name));
}

TemporaryFolder::TemporaryFolder(TemporaryFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (path_.empty()) return;
  fs::remove_all(path_, ignored);
  release_folder(path_);
}

Result<std::string> ObjectStore::put(std::string_view content, std::string_view suffix) const {
  const std::string hash = sha256_hex(content);
  const fs::path path = root_ / hash.substr(0, 2) / (hash + std::string(suffix));
  std::error_code code;
  if (fs::exists(path, code)) return hash;
  KL_CHECK(write_file_atomic(path, content));
  return hash;
}

Result<fs::path> ObjectStore::find(std::string_view hash_or_prefix) const {
  std::vector<fs::path> found;
  if (hash_or_prefix.size() >= 6) {
    std::error_code code;
    for (const auto& entry :
         fs::directory_iterator(root_ / std::string(hash_or_prefix.substr(0, 2)), code))
      if (entry.path().filename().string().starts_with(hash_or_prefix)) found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    return make_error(Status::usage, fmt::format("no stored object {}", hash_or_prefix),
                      "give at least 6 digits of a hash that `kernel-lab history` prints");
  return make_error(Status::usage,
                    fmt::format("{} names {} stored objects", hash_or_prefix, found.size()),
                    "give more digits of the hash");
}

Result<std::string> ObjectStore::get(std::string_view hash_or_prefix) const {
  KL_TRY(const fs::path path, find(hash_or_prefix));
  return read_file(path);
}

}  // namespace kl
