// Two trainers that run at once and step in turn: on a machine whose speed changes every few
// seconds, only steps that lie next to each other in time can be compared.
//
// Each trainer owns a folder with two FIFOs, `ask` and `grant`. It writes one byte to `ask` when it
// is ready for its next turn, and reads one byte from `grant` before it goes on.
#pragma once

#include <lab/core/files.hpp>
#include <lab/stats/order.hpp>

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace kl {

// How the timed steps of a leg are cut. Each turn first runs `settle` steps that count for nothing:
// they bring the caches back that the other trainer's turn took.
struct TurnPlan {
  int64_t steps = 0;   // timed steps of a turn
  int64_t settle = 0;
  std::filesystem::path channel;  // folder of the FIFOs; empty: settle as planned, wait for nobody
};

// Turns long enough to measure and short beside the changes of a shared machine's speed: 0.05 s and
// at least 4 steps; one step settles, two where a step takes under 50 ms.
TurnPlan turns_for(double step_ns);
// Timed steps rounded up to whole turns, at least 24 of them.
int64_t whole_turns(int64_t steps, const TurnPlan& turns);

class TurnKeeper {
 public:
  static Result<TurnKeeper> create(const std::filesystem::path& folder);
  TurnKeeper(TurnKeeper&&) noexcept;
  TurnKeeper& operator=(TurnKeeper&&) = delete;
  ~TurnKeeper();

  const std::filesystem::path& channel(stats::Arm arm) const { return channels_[at(arm)]; }
  // Waits until both are ready, then grants turns in the order ABBA BAAB, then lets both finish.
  // Stops, and lets a waiting trainer go on, when `ended` says that either has ended. The answer is
  // whether every turn was taken.
  bool conduct(int64_t turns, stats::Arm first, const std::atomic<bool> (&ended)[2]);

 private:
  TurnKeeper() = default;
  static size_t at(stats::Arm arm) { return arm == stats::Arm::baseline ? 0 : 1; }
  bool wait(stats::Arm arm, const std::atomic<bool> (&ended)[2]);
  void grant(stats::Arm arm);

  std::filesystem::path channels_[2];
  int ask_[2] = {-1, -1};
  int grant_[2] = {-1, -1};
};

}  // namespace kl
