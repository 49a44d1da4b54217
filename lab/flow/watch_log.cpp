#include <lab/flow/watch_log.hpp>

namespace kl {

std::optional<size_t> best_round(const std::vector<WatchRound>& rounds) {
  std::optional<size_t> best;
  for (size_t i = 0; i < rounds.size(); ++i) {
    const WatchRound& round = rounds[i];
    const bool fair = round.bench == Status::improved || round.bench == Status::equivalent ||
                      round.bench == Status::regressed || round.bench == Status::inconclusive;
    if (round.verify == Status::ok && fair && round.ratio > 0 && (!best || round.ratio < rounds[*best].ratio))
      best = i;
  }
  return best;
}

}  // namespace kl
