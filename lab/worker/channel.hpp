// One end of the socket pair between parent and worker: whole datagrams, with descriptors.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kl {

class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  bool send(std::span<const char> message, int descriptor = -1) const;
  // Blocks. False when the other end is gone. `descriptor` is -1 unless one came along; any
  // further ones are closed.
  bool receive(std::vector<char>& message, int& descriptor) const;
  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace kl
