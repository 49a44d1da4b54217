#include <trainer/turns.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace kl::trainer {

RunSteps::RunSteps(int64_t warmup_steps, int64_t steps, const std::optional<Turns>& turns)
    : warmup_(warmup_steps), total_(warmup_steps + steps) {
  if (!turns) return;
  settle_ = turns->settle;
  turn_ = turns->settle + turns->steps;
  total_ += steps / turns->steps * turns->settle;
}

bool RunSteps::timed(int64_t step) const {
  return step >= warmup_ && (turn_ == 0 || (step - warmup_) % turn_ >= settle_);
}

bool RunSteps::waits_before(int64_t step) const {
  return turn_ > 0 && step >= warmup_ && (step - warmup_) % turn_ == 0;
}

Result<TurnChannel> TurnChannel::open(const std::optional<Turns>& turns) {
  TurnChannel channel;
  if (!turns || turns->channel.empty()) return channel;
  const std::filesystem::path folder = turns->channel;
  channel.ask_ = ::open((folder / "ask").c_str(), O_WRONLY | O_CLOEXEC);
  channel.grant_ = ::open((folder / "grant").c_str(), O_RDONLY | O_CLOEXEC);
  if (channel.ask_ < 0 || channel.grant_ < 0)
    return make_error(Status::usage, "cannot open ask and grant in " + turns->channel + ": " + std::strerror(errno),
                      "whoever wrote the plan makes these FIFOs before it starts the trainer");
  return channel;
}

TurnChannel::TurnChannel(TurnChannel&& other) noexcept
    : ask_(std::exchange(other.ask_, -1)), grant_(std::exchange(other.grant_, -1)) {}

TurnChannel::~TurnChannel() {
  for (const int fd : {ask_, grant_})
    if (fd >= 0) ::close(fd);
}

Outcome TurnChannel::wait() {
  if (ask_ < 0) return {};
  char byte = 1;
  if (::write(ask_, &byte, 1) == 1 && ::read(grant_, &byte, 1) == 1) return {};
  return make_error(Status::execution_failed, "whoever grants the turns went away",
                    "run integration-ab again; this run decides nothing");
}

}  // namespace kl::trainer
