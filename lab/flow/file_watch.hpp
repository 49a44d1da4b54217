// Waits for one file of a folder to be saved, however an editor does that: written in place, renamed
// over, deleted and written anew.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <string>

namespace kl {

class FileWatch {
 public:
  // The folder must exist; the file need not. Errors: error, with the limit to raise.
  static Result<FileWatch> open(const std::filesystem::path& file);
  FileWatch(FileWatch&& other) noexcept;
  FileWatch& operator=(FileWatch&& other) noexcept;
  ~FileWatch();

  enum class Event : uint8_t { touched, stopped, folder_gone };
  // Until the file was touched and then left alone for a moment, or `stop_fd` can be read.
  Event wait(int stop_fd);
  // Without waiting: was it touched since `wait` or `forget`? True of a folder that is gone, too.
  bool touched();
  void forget() { touched_ = false; }

 private:
  FileWatch(int fd, std::filesystem::path folder, std::string name)
      : fd_(fd), folder_(std::move(folder)), name_(std::move(name)) {}
  void read_events();

  int fd_ = -1;
  std::filesystem::path folder_;
  std::string name_;
  bool touched_ = false;
  bool gone_ = false;
};

}  // namespace kl
