#include <lab/flow/file_watch.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kl {
namespace {

constexpr int kQuietMs = 100;  // saves come as several events

// Removed, though somebody holds it open, as a shell does that stands in it: the system tells of that only when they let go.
bool is_gone(const std::filesystem::path& folder) {
  struct stat about {};
  return ::stat(folder.c_str(), &about) != 0 || about.st_nlink == 0;
}

}  // namespace

Result<FileWatch> FileWatch::open(const std::filesystem::path& file) {
  const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0)
    return make_error(Status::error, fmt::format("cannot watch files: {}", std::strerror(errno)),
                      "raise /proc/sys/fs/inotify/max_user_instances");
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  FileWatch watch(fd, folder, file.filename().string());
  // Not IN_MODIFY: a file that is being written is not saved yet.
  constexpr uint32_t kMask = IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                             IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
  if (::inotify_add_watch(fd, folder.c_str(), kMask) < 0)
    return make_error(Status::error, fmt::format("cannot watch {}: {}", folder.string(), std::strerror(errno)),
                      errno == ENOSPC ? "raise /proc/sys/fs/inotify/max_user_watches" : "check the folder");
  return watch;
}

FileWatch::FileWatch(FileWatch&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), folder_(std::move(other.folder_)), name_(std::move(other.name_)), touched_(other.touched_), gone_(other.gone_) {}
FileWatch& FileWatch::operator=(FileWatch&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(folder_, other.folder_);
  std::swap(name_, other.name_);
  std::swap(touched_, other.touched_);
  std::swap(gone_, other.gone_);
  return *this;
}
FileWatch::~FileWatch() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWatch::read_events() {
  alignas(inotify_event) char buffer[4096];
  ssize_t size = 0;
  while ((size = ::read(fd_, buffer, sizeof buffer)) > 0)
    for (ssize_t at = 0; at < size;) {
      inotify_event event{};
      std::memcpy(&event, buffer + at, sizeof event);
      const char* name = buffer + at + sizeof event;
      if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) != 0) gone_ = true;
      // After an overflow anything may have happened.
      if ((event.mask & IN_Q_OVERFLOW) != 0 || (event.len > 0 && name_ == name)) touched_ = true;
      at += static_cast<ssize_t>(sizeof event + event.len);
    }
}

FileWatch::Event FileWatch::wait(int stop_fd) {
  for (;;) {
    pollfd fds[2] = {{fd_, POLLIN, 0}, {stop_fd, POLLIN, 0}};
    const int ready = ::poll(fds, 2, touched_ ? kQuietMs : -1);
    if (ready > 0 && fds[1].revents != 0) return Event::stopped;
    if (ready > 0) read_events();
    if (ready == 0) gone_ |= is_gone(folder_);
    if (gone_) return Event::folder_gone;
    if (ready == 0 && std::exchange(touched_, false)) return Event::touched;
  }
}

bool FileWatch::touched() {
  read_events();
  return touched_ || gone_;
}

}  // namespace kl
