#include <lab/core/process.hpp>

#include <lab/core/clock.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace kl {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void close_read() {
    if (read_end >= 0) ::close(std::exchange(read_end, -1));
  }
  void close_write() {
    if (write_end >= 0) ::close(std::exchange(write_end, -1));
  }
  ~Pipe() {
    close_read();
    close_write();
  }
};

std::vector<std::string> child_environment(const Command& command) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (command.environment.contains(name)) continue;
    if (std::find(command.unset.begin(), command.unset.end(), name) != command.unset.end()) continue;
    result.emplace_back(text);
  }
  for (const auto& [name, value] : command.environment) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

// Drains what is there; false at end of file.
bool drain(int fd, std::string& kept, size_t limit, bool& truncated,
           const std::function<void(std::string_view)>& sink) {
  char buffer[1 << 16];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n == 0) return false;
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  const std::string_view chunk(buffer, static_cast<size_t>(n));
  if (sink) sink(chunk);
  const size_t room = limit - std::min(limit, kept.size());
  kept.append(chunk.substr(0, room));
  truncated |= chunk.size() > room;
  return true;
}

}  // namespace

Result<Finished> run_process(const Command& command) {
  Pipe out, err, started;
  if (!out.open() || !err.open() || !started.open())
    return make_error(Status::error, fmt::format("cannot open a pipe: {}", std::strerror(errno)),
                      "raise the limit on open files (ulimit -n)");

  auto arguments = command.arguments;
  auto environment = child_environment(command);
  auto argv = pointers(arguments);
  auto envp = pointers(environment);
  const pid_t parent = ::getpid();
  const int64_t begin = monotonic_ns();
  const pid_t pid = ::fork();
  if (pid < 0)
    return make_error(Status::error, fmt::format("cannot start a process: {}", std::strerror(errno)),
                      "raise the limit on processes (ulimit -u)");
  if (pid == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::signal(SIGPIPE, SIG_DFL);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, 0);
    ::dup2(out.write_end, 1);
    if (!command.pass_stderr) ::dup2(err.write_end, 2);
    if (command.folder.empty() || ::chdir(command.folder.c_str()) == 0)
      ::execvpe(argv[0], argv.data(), envp.data());
    const int code = errno;
    [[maybe_unused]] const ssize_t n = ::write(started.write_end, &code, sizeof code);
    ::_exit(127);
  }
  ::setpgid(pid, pid);
  out.close_write();
  err.close_write();
  started.close_write();
  int exec_error = 0;
  if (::read(started.read_end, &exec_error, sizeof exec_error) == sizeof exec_error) {
    ::waitpid(pid, nullptr, 0);
    return make_error(
        Status::missing_tool,
        fmt::format("cannot run {}: {}", command.arguments[0], std::strerror(exec_error)),
        fmt::format("install {} or put it on PATH", command.arguments[0]));
  }

  Finished finished;
  const int64_t deadline = begin + static_cast<int64_t>(command.timeout_seconds * 1e9);
  bool out_open = true, err_open = true, reaped = false;
  int wait_status = 0;
  int64_t drain_until = INT64_MAX;  // a grandchild in a session of its own may hold the pipes open
  rusage usage{};
  while (!reaped || ((out_open || err_open) && monotonic_ns() < drain_until)) {
    pollfd fds[2] = {{out_open ? out.read_end : -1, POLLIN, 0}, {err_open ? err.read_end : -1, POLLIN, 0}};
    const int64_t left_ms = (deadline - monotonic_ns()) / 1'000'000;
    if (left_ms <= 0 && !finished.timed_out) {
      finished.timed_out = true;
      ::kill(-pid, SIGKILL);
    }
    if (command.cancelled && !reaped && !finished.cancelled && command.cancelled()) {
      finished.cancelled = true;
      ::kill(-pid, SIGKILL);
    }
    ::poll(fds, 2, static_cast<int>(std::clamp<int64_t>(left_ms, 1, reaped ? 1 : 20)));
    if (fds[0].revents != 0)
      out_open = drain(out.read_end, finished.out, command.output_limit_bytes,
                       finished.output_truncated, command.on_stdout);
    if (fds[1].revents != 0)
      err_open = drain(err.read_end, finished.err, command.output_limit_bytes,
                       finished.output_truncated, {});
    if (!reaped && ::wait4(pid, &wait_status, WNOHANG, &usage) == pid) {
      reaped = true;
      drain_until = monotonic_ns() + 200'000'000;
      ::kill(-pid, SIGKILL);  // whatever it left running keeps neither pipes nor cores
    }
  }
  finished.wall_seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  finished.peak_rss_bytes = usage.ru_maxrss * 1024;
  if (WIFEXITED(wait_status)) finished.exit_code = WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) finished.signal = WTERMSIG(wait_status);
  return finished;
}

std::filesystem::path executable_folder() {
  std::error_code code;
  return std::filesystem::read_symlink("/proc/self/exe", code).parent_path();
}

}  // namespace kl
