// Which steps of a run are timed, and the wait for one's turn between them: another trainer may
// share the machine (docs/trainer-protocol.md).
#pragma once

#include <lab/core/result.hpp>
#include <trainer/plan.hpp>

namespace kl::trainer {

// The steps of a run: warm-up, then turns of settling and timed steps, or timed steps alone.
class RunSteps {
 public:
  RunSteps(int64_t warmup_steps, int64_t steps, const std::optional<Turns>& turns);
  int64_t total() const { return total_; }
  bool timed(int64_t step) const;
  // A turn begins with this step, or has ended before it.
  bool waits_before(int64_t step) const;

 private:
  int64_t warmup_ = 0, settle_ = 0, turn_ = 0, total_ = 0;
};

class TurnChannel {
 public:
  // Opens `ask` and `grant`; does nothing, ever, without turns or without a channel.
  static Result<TurnChannel> open(const std::optional<Turns>& turns);
  TurnChannel(TurnChannel&&) noexcept;
  TurnChannel& operator=(TurnChannel&&) = delete;
  ~TurnChannel();
  // Says that this trainer is ready, and returns when it may go on.
  Outcome wait();

 private:
  TurnChannel() = default;
  int ask_ = -1, grant_ = -1;
};

}  // namespace kl::trainer
