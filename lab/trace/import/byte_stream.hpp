// A file's bytes in order, unpacked where they are gzip: a trace need not fit into memory.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <memory>
#include <string>

struct gzFile_s;

namespace kl::trace {

class ByteStream {
 public:
  static Result<ByteStream> open(const std::filesystem::path& path);
  // How many bytes were read; 0 at the end.
  size_t read(char* to, size_t capacity);
  bool packed() const;
  // Why the packed bytes ended early; empty when they did not.
  const std::string& broken() const { return broken_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  explicit ByteStream(gzFile_s* file) : file_(file) {}
  std::unique_ptr<gzFile_s, Close> file_;
  std::string broken_;
};

}  // namespace kl::trace
