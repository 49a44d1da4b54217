#include <trainer/events.hpp>

#include <lab/core/clock.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace kl::trainer {

Result<EventStream> EventStream::append_to(const std::filesystem::path& path) {
  EventStream stream;
  stream.path_ = path;
  stream.file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (stream.file_ < 0)
    return make_error(Status::error, "cannot open " + path.string() + ": " + std::strerror(errno),
                      "give a file that can be written");
  return stream;
}

EventStream::EventStream(EventStream&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}
EventStream& EventStream::operator=(EventStream&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  return *this;
}
EventStream::~EventStream() {
  if (file_ >= 0) ::close(file_);
}

Outcome EventStream::write(std::string_view event, Json fields) const {
  if (file_ < 0) return {};
  fields["event"] = event;
  fields["t_ns"] = monotonic_ns();
  const std::string line = dump_line(fields) + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t written = ::write(file_, line.data() + at, line.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      return make_error(Status::error, "cannot write events to " + path_.string() + ": " + std::strerror(errno),
                        "free some space or keep the reader open; the run is stopped");
    at += static_cast<size_t>(written);
  }
  return {};
}

}  // namespace kl::trainer
