#include <lab/ledger/locked_file.hpp>

#include <lab/core/files.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kl {
namespace {

// A new file survives a crash only when its folder is on the disk too.
void sync_folder_of(const fs::path& path) {
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (const int dir = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); dir >= 0) {
    ::fsync(dir);
    ::close(dir);
  }
}

int lock_waiting(int fd, int operation) {
  int rc;
  do rc = ::flock(fd, operation);
  while (rc != 0 && errno == EINTR);
  return rc;
}

}  // namespace

Error ledger_error(std::string_view action, const fs::path& path, int code) {
  Status status = code == ENOENT ? Status::usage : Status::error;
  std::string remedy = "check the path, or give another ledger with --ledger";
  if (code == ENOSPC || code == EDQUOT || code == EFBIG)
    remedy = "free some space there, or give another ledger with --ledger; nothing was recorded";
  if (code == EACCES || code == EPERM || code == EROFS) {
    status = Status::no_permission;
    remedy = "make it writable by you, or give another ledger with --ledger; nothing was recorded";
  }
  return make_error(
      status,
      fmt::format("cannot {} the ledger {}: {}", action, path.string(), std::strerror(code)),
      std::move(remedy));
}

Result<LockedFile> LockedFile::open(const fs::path& path, LedgerLock lock) {
  const bool writing = lock == LedgerLock::exclusive;
  if (writing) KL_CHECK(make_directories(path.parent_path()));
  for (;;) {
    bool created = false;
    int fd = ::open(path.c_str(), (writing ? O_RDWR | O_APPEND : O_RDONLY) | O_CLOEXEC);
    if (fd < 0 && writing && errno == ENOENT) {
      fd = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
      created = true;
    }
    if (fd < 0) return ledger_error("open", path, errno);
    if (lock_waiting(fd, writing ? LOCK_EX : LOCK_SH) != 0) {
      const int code = errno;
      ::close(fd);
      return ledger_error("lock", path, code);
    }
    struct stat mine {
    }, named{};
    const bool same = ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
                      mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
    if (!same) {
      ::close(fd);
      continue;
    }
    if (created || (writing && mine.st_size == 0)) sync_folder_of(path);
    return LockedFile(fd, mine.st_size);
  }
}

void LockedFile::unlock() { lock_waiting(fd_, LOCK_UN); }

LockedFile::~LockedFile() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace kl
