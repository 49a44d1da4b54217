// A ledger file, opened and locked so that two commands at once both complete.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <utility>

namespace kl {

enum class LedgerLock { shared, exclusive };

class LockedFile {
 public:
  // Exclusive creates the file and its folder. The lock is on the file that the path names now: a
  // file replaced while waiting is opened again.
  static Result<LockedFile> open(const std::filesystem::path& path, LedgerLock lock);
  LockedFile(LockedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  LockedFile& operator=(LockedFile&&) = delete;
  ~LockedFile();
  int fd() const { return fd_; }
  // At the moment of locking.
  int64_t size_bytes() const { return size_; }
  void unlock();

 private:
  LockedFile(int fd, int64_t size) : fd_(fd), size_(size) {}
  int fd_ = -1;
  int64_t size_ = 0;
};

Error ledger_error(std::string_view action, const std::filesystem::path& path, int code);

}  // namespace kl
