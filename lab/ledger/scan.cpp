#include <lab/ledger/scan.hpp>

#include <lab/core/fingerprint.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

namespace kl {
namespace {

constexpr size_t kChunkBytes = 1 << 18;

// Reads exactly [offset, offset + size) or as much as the file has; -1 with errno on failure.
ssize_t read_at(int fd, char* to, size_t size, int64_t offset) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(fd, to + done, size - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(done);
}

// First position after a newline at or after `offset`; `size` when there is none.
int64_t line_start_after(int fd, int64_t offset, int64_t size) {
  std::vector<char> buffer(1 << 16);
  while (offset < size) {
    const auto want = static_cast<size_t>(std::min<int64_t>(size - offset, 1 << 16));
    const ssize_t n = read_at(fd, buffer.data(), want, offset);
    if (n <= 0) return size;
    if (const auto* at =
            static_cast<const char*>(std::memchr(buffer.data(), '\n', static_cast<size_t>(n))))
      return offset + (at - buffer.data()) + 1;
    offset += n;
  }
  return size;
}

// Returns 0, or the errno of a failed read.
int scan_part(int fd, int64_t begin, int64_t end, size_t part,
              const std::function<void(size_t, const ScannedLine&)>& on_line, int64_t& lines) {
  std::vector<char> buffer(kChunkBytes);
  size_t held = 0;  // bytes of an unfinished line at the front of the buffer
  int64_t offset = begin;
  const auto emit = [&](int64_t at, std::string_view text) {
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (!text.empty()) on_line(part, {at, lines, text});
    ++lines;
  };
  while (offset < end) {
    if (held == buffer.size()) buffer.resize(2 * buffer.size());
    const auto want = static_cast<size_t>(
        std::min<int64_t>(end - offset, static_cast<int64_t>(buffer.size() - held)));
    const ssize_t n = read_at(fd, buffer.data() + held, want, offset);
    if (n < 0) return errno;
    if (n == 0) break;
    const int64_t base = offset - static_cast<int64_t>(held);
    const size_t filled = held + static_cast<size_t>(n);
    size_t line = 0, from = held;
    while (const auto* at =
               static_cast<const char*>(std::memchr(buffer.data() + from, '\n', filled - from))) {
      const auto stop = static_cast<size_t>(at - buffer.data());
      emit(base + static_cast<int64_t>(line), {buffer.data() + line, stop - line});
      line = from = stop + 1;
    }
    held = filled - line;
    std::memmove(buffer.data(), buffer.data() + line, held);
    offset += n;
  }
  if (held > 0) emit(offset - static_cast<int64_t>(held), {buffer.data(), held});
  return 0;
}

}  // namespace

size_t scan_parts(int64_t size_bytes) {
  if (size_bytes < (16 << 20)) return 1;
  return static_cast<size_t>(std::clamp(usable_cores(), 1, 4));
}

Outcome scan_lines(int fd, int64_t size_bytes, size_t parts,
                   const std::function<void(size_t, const ScannedLine&)>& on_line,
                   const std::function<void(size_t, int64_t)>& on_part) {
  std::vector<int64_t> bounds = {0};
  for (size_t i = 1; i < parts; ++i)
    bounds.push_back(std::max(
        bounds.back(),
        line_start_after(fd, size_bytes / static_cast<int64_t>(parts) * static_cast<int64_t>(i),
                         size_bytes)));
  bounds.push_back(size_bytes);
  std::vector<int64_t> lines(parts, 0);
  std::vector<int> failed(parts, 0);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < parts; ++i)
      threads.emplace_back(
          [&, i] { failed[i] = scan_part(fd, bounds[i], bounds[i + 1], i, on_line, lines[i]); });
    failed[0] = scan_part(fd, bounds[0], bounds[1], 0, on_line, lines[0]);
  }
  for (size_t i = 0; i < parts; ++i) {
    if (failed[i] != 0)
      return make_error(Status::error,
                        fmt::format("cannot read the ledger: {}", std::strerror(failed[i])),
                        "check the disk; `kernel-lab ledger check` says what can still be read");
    on_part(i, lines[i]);
  }
  return {};
}

}  // namespace kl
