#include <lab/trace/import/byte_stream.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <zlib.h>

namespace kl::trace {

void ByteStream::Close::operator()(gzFile_s* file) const { gzclose_r(file); }

Result<ByteStream> ByteStream::open(const std::filesystem::path& path) {
  gzFile_s* file = gzopen(path.c_str(), "rb");
  if (file == nullptr)
    return make_error(Status::usage, fmt::format("cannot read the trace {}", path.string()), "check the path");
  gzbuffer(file, 1 << 18);
  return ByteStream(file);
}

bool ByteStream::packed() const { return gzdirect(file_.get()) == 0; }

size_t ByteStream::read(char* to, size_t capacity) {
  constexpr size_t kMost = size_t{1} << 30;
  const int got = gzread(file_.get(), to, static_cast<unsigned>(std::min(capacity, kMost)));
  if (got > 0) return static_cast<size_t>(got);
  int code = Z_OK;
  const char* text = gzerror(file_.get(), &code);
  if (code != Z_OK && broken_.empty()) broken_ = code == Z_BUF_ERROR ? "its packed data ends early" : text;
  return 0;
}

}  // namespace kl::trace
