#include <lab/worker/worker_process.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/installation.hpp>
#include <lab/worker/protocol.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace kl {
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int release() { return std::exchange(fd, -1); }
};

// Nothing of the caller's environment enters a measurement but where libraries are found and which
// devices there are.
std::vector<std::string> worker_environment(const WorkerLimits& limits, int threads) {
  std::vector<std::string> result = {
      "PATH=/usr/bin:/bin",       "LANG=C",
      "OMP_WAIT_POLICY=passive",  "OMP_DYNAMIC=false",
      "OMP_MAX_ACTIVE_LEVELS=1",  fmt::format("OMP_NUM_THREADS={}", threads),
  };
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) result.push_back(fmt::format("LD_LIBRARY_PATH={}", path));
  if (limits.device.empty()) return result;
  // Code is loaded with its library and never cached in files; streams do not share hardware queues.
  result.insert(result.end(), {"CUDA_MODULE_LOADING=EAGER", "CUDA_CACHE_DISABLE=1", "CUDA_DEVICE_MAX_CONNECTIONS=32"});
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"})
    if (const char* value = std::getenv(name)) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

Error cannot_start(std::string_view step) {
  return make_error(Status::error, fmt::format("starting a worker: {} failed: {}", step, std::strerror(errno)),
                    "raise the limits on processes and open files (ulimit -u, ulimit -n)");
}

struct Ends {
  int channel, status, out, err;
};

// Between fork and exec: only what is safe in the child of a process with threads.
[[noreturn]] void become_worker(const char* path, char* const* environment, Ends ends, pid_t parent) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // Out of the way first: the wanted numbers may be taken by one another.
  int* const all[] = {&ends.channel, &ends.status, &ends.out, &ends.err};
  for (int* fd : all) *fd = ::fcntl(*fd, F_DUPFD, 16);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(ends.out, 1);
  ::dup2(ends.err, 2);
  ::dup2(ends.channel, protocol::kChannelFd);
  ::dup2(ends.status, protocol::kStatusFd);
  ::syscall(SYS_close_range, 5u, ~0u, 0u);
  char* const arguments[] = {const_cast<char*>(path), nullptr};
  ::execve(path, arguments, environment);
  ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(const WorkerLimits& limits, int threads) {
  const auto program = Installation::find().bin / "kernel-lab-worker";
  if (::access(program.c_str(), X_OK) != 0)
    return make_error(Status::missing_tool, fmt::format("cannot run {}: {}", program.string(), std::strerror(errno)),
                      "build or install kernel-lab-worker, or set KERNEL_LAB_HOME to its installation");

  int sockets[2], out[2], err[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return cannot_start("socketpair");
  Descriptor here{sockets[0]}, there{sockets[1]};
  if (::pipe2(out, O_CLOEXEC) != 0) return cannot_start("pipe");
  Descriptor out_read{out[0]}, out_write{out[1]};
  if (::pipe2(err, O_CLOEXEC) != 0) return cannot_start("pipe");
  Descriptor err_read{err[0]}, err_write{err[1]};
  Descriptor page{::memfd_create("kernel-lab-status", MFD_CLOEXEC)};
  if (page.fd < 0 || ::ftruncate(page.fd, 4096) != 0) return cannot_start("memfd_create");
  void* status = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd, 0);
  if (status == MAP_FAILED) return cannot_start("mmap");

  std::unique_ptr<WorkerProcess> worker(new WorkerProcess);
  worker->status_ = static_cast<StatusPage*>(status);
  worker->printed_limit_ = limits.printed_bytes;
  auto environment = worker_environment(limits, threads);
  std::vector<char*> envp;
  for (auto& entry : environment) envp.push_back(entry.data());
  envp.push_back(nullptr);
  const std::string path = program.string();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return cannot_start("fork");
  if (pid == 0)
    become_worker(path.c_str(), envp.data(), {there.fd, page.fd, out_write.fd, err_write.fd}, parent);
  worker->pid_ = pid;
  worker->channel_ = here.release();
  worker->output_[0] = out_read.release();
  worker->output_[1] = err_read.release();
  for (const int fd : worker->output_) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return worker;
}

WorkerProcess::~WorkerProcess() {
  finish();
  for (const int fd : {channel_, output_[0], output_[1]})
    if (fd >= 0) ::close(fd);
  if (status_ != nullptr) ::munmap(status_, 4096);
}

// False at end of file.
bool WorkerProcess::read_from(int fd) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    const size_t room = printed_limit_ - std::min(printed_limit_, printed_.size());
    printed_.append(buffer, std::min(room, static_cast<size_t>(n)));
    flooded_ |= static_cast<size_t>(n) > room;
    if (flooded_) return true;
  }
}

void WorkerProcess::drain() {
  for (int& fd : output_)
    if (fd >= 0 && !read_from(fd)) ::close(std::exchange(fd, -1));
}

WorkerProcess::Ended WorkerProcess::wait(double seconds, std::vector<char>& message) {
  const int64_t deadline = monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
  for (;;) {
    pollfd fds[3] = {{channel_, POLLIN, 0}, {output_[0], POLLIN, 0}, {output_[1], POLLIN, 0}};
    const int64_t left_ns = deadline - monotonic_ns();
    if (left_ns <= 0) return Ended::timed_out;
    ::poll(fds, 3, static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, 1000)));
    if (fds[0].revents != 0) {
      int descriptor = -1;
      const bool got = Channel(channel_).receive(message, descriptor);
      if (descriptor >= 0) ::close(descriptor);
      return got ? Ended::replied : Ended::gone;
    }
    if ((fds[1].revents | fds[2].revents) != 0) drain();
    if (flooded_) return Ended::flooded;
  }
}

bool WorkerProcess::send(std::span<const char> message, int descriptor) const {
  return Channel(channel_).send(message, descriptor);
}

bool WorkerProcess::has_unread() const {
  pollfd p{channel_, POLLIN, 0};
  char byte = 0;
  return ::poll(&p, 1, 0) > 0 && ::recv(channel_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool WorkerProcess::has_ended() const {
  if (pid_ <= 0 || reaped_ || status_->claimed != 0) return true;
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
         info.si_pid == pid_;
}

int WorkerProcess::finish() {
  if (pid_ <= 0 || reaped_) return wait_status_;
  // One that ends by itself shall be seen to: its exit code is evidence.
  const int64_t patience = monotonic_ns() + 200'000'000;
  bool killed = false;
  for (;;) {
    siginfo_t info{};
    const int options = WEXITED | WNOWAIT | (killed ? 0 : WNOHANG);
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, options) == 0 && info.si_pid == pid_) break;
    pollfd p{channel_, POLLIN, 0};
    const bool hung_up = ::poll(&p, 1, 0) > 0 && (p.revents & POLLHUP) != 0;
    if (!hung_up || monotonic_ns() > patience) {
      ::kill(-pid_, SIGKILL);
      ::kill(pid_, SIGKILL);
      killed = true;
    } else {
      ::poll(nullptr, 0, 1);
    }
  }
  drain();
  ::kill(-pid_, SIGKILL);  // still unreaped, so the group's number cannot be another's
  while (::waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  return wait_status_;
}

}  // namespace kl
