#include <lab/integration/turns.hpp>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

namespace kl {
namespace {

constexpr double kTurnSeconds = 0.05;
constexpr int64_t kLeastSteps = 4;
constexpr int64_t kLeastTurns = 24;
constexpr double kShortStep_ns = 50e6;
constexpr int kLookAgain_ms = 50;  // for a trainer that ended without a word

// Opened for reading and writing: neither end waits for the other to open, and a byte written
// before anyone reads is kept.
Result<int> open_fifo(const fs::path& path) {
  if (::mkfifo(path.c_str(), 0600) != 0)
    return make_error(Status::error, fmt::format("cannot make the FIFO {}: {}", path.string(), std::strerror(errno)),
                      "point TMPDIR at a local file system");
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0)
    return make_error(Status::error, fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)),
                      "raise the limit of open files");
  return fd;
}

}  // namespace

TurnPlan turns_for(double step_ns) {
  const auto steps = static_cast<int64_t>(std::ceil(kTurnSeconds * 1e9 / step_ns));
  return {std::max(kLeastSteps, steps), step_ns < kShortStep_ns ? 2 : 1, {}};
}

int64_t whole_turns(int64_t steps, const TurnPlan& turns) {
  if (turns.steps == 0) return steps;
  return std::max(kLeastTurns, (steps + turns.steps - 1) / turns.steps) * turns.steps;
}

Result<TurnKeeper> TurnKeeper::create(const fs::path& folder) {
  TurnKeeper keeper;
  for (const stats::Arm arm : {stats::Arm::baseline, stats::Arm::candidate}) {
    const size_t i = at(arm);
    keeper.channels_[i] = folder / (arm == stats::Arm::baseline ? "baseline" : "candidate");
    KL_CHECK(make_directories(keeper.channels_[i]));
    KL_TRY(keeper.ask_[i], open_fifo(keeper.channels_[i] / "ask"));
    KL_TRY(keeper.grant_[i], open_fifo(keeper.channels_[i] / "grant"));
  }
  return keeper;
}

TurnKeeper::TurnKeeper(TurnKeeper&& other) noexcept {
  for (size_t i = 0; i < 2; ++i) {
    channels_[i] = std::move(other.channels_[i]);
    ask_[i] = std::exchange(other.ask_[i], -1);
    grant_[i] = std::exchange(other.grant_[i], -1);
  }
}

TurnKeeper::~TurnKeeper() {
  for (const int fd : {ask_[0], ask_[1], grant_[0], grant_[1]})
    if (fd >= 0) ::close(fd);
}

bool TurnKeeper::wait(stats::Arm arm, const std::atomic<bool> (&ended)[2]) {
  pollfd ask{ask_[at(arm)], POLLIN, 0};
  while (true) {
    if (::poll(&ask, 1, kLookAgain_ms) > 0) {
      char byte;
      return ::read(ask.fd, &byte, 1) == 1;
    }
    if (ended[0] || ended[1]) return false;
  }
}

void TurnKeeper::grant(stats::Arm arm) {
  const char byte = 1;
  [[maybe_unused]] const auto written = ::write(grant_[at(arm)], &byte, 1);
}

bool TurnKeeper::conduct(int64_t turns, stats::Arm first, const std::atomic<bool> (&ended)[2]) {
  const auto all = [&] {
    for (const stats::Arm arm : {first, stats::other(first)})
      if (!wait(arm, ended)) return false;
    for (int64_t turn = 0; turn < turns; ++turn) {
      const bool as_first = stats::first_of_pair(static_cast<int>(turn)) == stats::Arm::baseline;
      const stats::Arm leads = as_first ? first : stats::other(first);
      for (const stats::Arm arm : {leads, stats::other(leads)}) {
        grant(arm);
        if (!wait(arm, ended)) return false;
      }
    }
    return true;
  };
  const bool complete = all();
  // Enough to let a trainer run to its end when the other is gone.
  const int64_t left = complete ? 1 : turns + 1;
  for (int64_t i = 0; i < left; ++i)
    for (const stats::Arm arm : {stats::Arm::baseline, stats::Arm::candidate}) grant(arm);
  return complete;
}

}  // namespace kl
