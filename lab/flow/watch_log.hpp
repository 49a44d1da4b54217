// What a watched workspace has been through: a round for each save that was judged.
#pragma once

#include <lab/core/record.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kl {

struct WatchRound {
  std::string at;  // UTC
  std::string kernel;
  Status verify = Status::error;
  std::string verify_says;
  std::optional<Status> bench;
  std::string bench_says;
  double ratio = 0;  // candidate / baseline; 0: not timed

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("at", self.at, "UTC");
    v("kernel", self.kernel, "SHA-256 of the source");
    v("verify", self.verify, "verdict of verify");
    v("verify_says", self.verify_says, "the same in one sentence");
    v("bench", self.bench, "verdict of bench; null when it did not run");
    v("bench_says", self.bench_says, "the same in one sentence, or why it did not run");
    v("ratio", self.ratio, "seam time per step over the champion's; 0: not timed");
  }
};

struct WatchRecord : RecordHeader {
  static constexpr std::string_view kSchema = "watch";
  std::vector<WatchRound> rounds;
  std::string best;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("rounds", self.rounds, "each save that was judged, in order");
    v("best", self.best, "SHA-256 of the fastest source that is right, or empty");
  }
};

// The round with the smallest ratio among those verified ok and benched without a charge.
std::optional<size_t> best_round(const std::vector<WatchRound>& rounds);

}  // namespace kl
