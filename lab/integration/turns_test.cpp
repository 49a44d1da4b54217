#include <lab/integration/turns.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <thread>

namespace kl {
namespace {

using stats::Arm;

// A trainer of so many turns that logs its letter each time it may go on.
class Player {
 public:
  Player(const fs::path& channel, char letter, int turns, std::string& log, std::mutex& mutex,
         std::atomic<bool>& ended)
      : thread_([=, &log, &mutex, &ended] {
          const int ask = ::open((channel / "ask").c_str(), O_WRONLY);
          const int grant = ::open((channel / "grant").c_str(), O_RDONLY);
          for (int i = 0; i < turns; ++i) {
            char byte = 1;
            if (::write(ask, &byte, 1) != 1 || ::read(grant, &byte, 1) != 1) break;
            const std::lock_guard lock(mutex);
            log += letter;
          }
          ::close(ask);
          ::close(grant);
          ended = true;
        }) {}

 private:
  std::jthread thread_;
};

class TurnsTest : public testing::Test {
 protected:
  bool play(int turns, int of_baseline, int of_candidate, Arm first) {
    auto keeper = TurnKeeper::create(folder_.path());
    EXPECT_TRUE(keeper.ok());
    std::atomic<bool> ended[2] = {false, false};
    const Player a(keeper->channel(Arm::baseline), 'A', of_baseline, log_, mutex_, ended[0]);
    const Player b(keeper->channel(Arm::candidate), 'B', of_candidate, log_, mutex_, ended[1]);
    return keeper->conduct(turns, first, ended);
  }

  TemporaryFolder folder_ = *TemporaryFolder::create("kl-turns");
  std::string log_;
  std::mutex mutex_;
};

// A player asks once more after its last turn, before it finishes.
TEST_F(TurnsTest, alternate_in_blocks_of_four) {
  EXPECT_TRUE(play(8, 9, 9, Arm::baseline));
  EXPECT_EQ(log_.substr(0, 16), "ABBABAABABBABAAB");
}

TEST_F(TurnsTest, start_with_either_arm) {
  EXPECT_TRUE(play(2, 3, 3, Arm::candidate));
  EXPECT_EQ(log_.substr(0, 4), "BAAB");
}

TEST_F(TurnsTest, one_that_ends_early_leaves_the_other_free) {
  EXPECT_FALSE(play(8, 9, 2, Arm::baseline));  // returns: nobody waits for ever
}

TEST_F(TurnsTest, one_that_never_asks_leaves_the_other_free) {
  EXPECT_FALSE(play(8, 0, 9, Arm::baseline));
}

TEST(TurnPlan, turns_last_0_05_seconds_or_four_steps) {
  EXPECT_EQ(turns_for(5e6).steps, 10);
  EXPECT_EQ(turns_for(20e6).steps, 4);
  EXPECT_EQ(turns_for(20e6).settle, 2);
  EXPECT_EQ(turns_for(200e6).steps, 4);
  EXPECT_EQ(turns_for(200e6).settle, 1);
  EXPECT_EQ(whole_turns(91, turns_for(5e6)), 240);
  EXPECT_EQ(whole_turns(240, turns_for(5e6)), 240);
  EXPECT_EQ(whole_turns(241, turns_for(5e6)), 250);
}

}  // namespace
}  // namespace kl
