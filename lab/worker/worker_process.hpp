// A running kernel-lab-worker: its process, its channel and what it prints. Knows nothing of
// kernels; bounded in time and output, never left behind.
#pragma once

#include <lab/core/result.hpp>
#include <lab/worker/channel.hpp>
#include <lab/worker/status_page.hpp>
#include <lab/worker/worker.hpp>

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kl {

class WorkerProcess {
 public:
  static Result<std::unique_ptr<WorkerProcess>> start(const WorkerLimits& limits, int threads);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  enum class Ended { replied, gone, timed_out, flooded };
  // Waits for one datagram, reading what is printed meanwhile.
  Ended wait(double seconds, std::vector<char>& message);
  bool send(std::span<const char> message, int descriptor = -1) const;
  // A datagram that nobody asked for lies in the channel.
  bool has_unread() const;
  void drain();

  // Kills the whole process group, reaps it; the wait status of the worker itself.
  int finish();
  // Dead or dying, reaped or not.
  bool has_ended() const;

  pid_t pid() const { return pid_; }
  const StatusPage& status() const { return *status_; }
  const std::string& printed() const { return printed_; }

 private:
  WorkerProcess() = default;
  bool read_from(int fd);

  pid_t pid_ = -1;
  bool reaped_ = false;
  int wait_status_ = 0;
  int channel_ = -1;
  int output_[2] = {-1, -1};  // stdout and stderr, read ends
  StatusPage* status_ = nullptr;
  std::string printed_;
  size_t printed_limit_ = 0;
  bool flooded_ = false;
};

}  // namespace kl
