#include "trainer_folders.hpp"

#include <lab/core/folders_in_use.hpp>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

namespace kl::app {
namespace {

constexpr std::array<std::string_view, 3> kPrefixes = {"kernel-lab-leg", "kernel-lab-weights", "kernel-lab-turns"};
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr char kNoSignal = 0;
constexpr useconds_t kLookAgain_us = 10'000;
constexpr int kLooks = 500;

int pipe_ends[2] = {-1, -1};
std::map<int, struct sigaction> before;
std::thread watcher;

extern "C" void tell_watcher(int signal) {
  const char number = static_cast<char>(signal);
  [[maybe_unused]] const auto written = ::write(pipe_ends[1], &number, 1);
}

// In a process of its own: trainers die with their parent, and only then do their folders stay empty.
void remove_after(pid_t parent, const std::vector<std::filesystem::path>& folders) {
  for (const int signal : kSignals) ::signal(signal, SIG_IGN);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
  for (int look = 0; look < kLooks && ::getppid() == parent; ++look) ::usleep(kLookAgain_us);
  std::error_code code;
  bool left = true;
  for (int look = 0; look < kLooks && left; ++look) {
    left = false;
    for (const auto& folder : folders) {
      std::filesystem::remove_all(folder, code);
      left |= std::filesystem::exists(folder, code);
    }
    if (left) ::usleep(kLookAgain_us);
  }
}

void end_by(int signal) {
  const auto folders = folders_in_use();
  const pid_t parent = ::getpid();
  if (!folders.empty() && ::fork() == 0) {
    remove_after(parent, folders);
    ::_exit(0);
  }
  ::signal(signal, SIG_DFL);
  ::kill(parent, signal);
}

}  // namespace

TrainerFolders::TrainerFolders() {
  remove_stale_folders(kPrefixes);
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return;
  watcher = std::thread([] {
    char number = kNoSignal;
    while (::read(pipe_ends[0], &number, 1) < 0) continue;
    if (number != kNoSignal) end_by(number);
  });
  for (const int signal : kSignals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;  // a shell's background job, nohup
    before[signal] = action;
    action = {};
    action.sa_handler = tell_watcher;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

TrainerFolders::~TrainerFolders() {
  for (const auto& [signal, action] : before) ::sigaction(signal, &action, nullptr);
  before.clear();
  if (!watcher.joinable()) return;
  [[maybe_unused]] const auto written = ::write(pipe_ends[1], &kNoSignal, 1);
  watcher.join();
  for (int& fd : pipe_ends) ::close(fd), fd = -1;
}

}  // namespace kl::app
