#include <trainer/turns.hpp>

#include <gtest/gtest.h>

namespace kl::trainer {
namespace {

TEST(RunSteps, in_one_piece_all_after_the_warm_up_are_timed) {
  const RunSteps steps(5, 10, std::nullopt);
  EXPECT_EQ(steps.total(), 15);
  EXPECT_FALSE(steps.timed(4));
  EXPECT_TRUE(steps.timed(5));
  EXPECT_FALSE(steps.waits_before(5));
}

TEST(RunSteps, every_turn_settles_first_and_the_timed_ones_are_those_asked_for) {
  const RunSteps steps(3, 12, Turns{4, 2, ""});
  EXPECT_EQ(steps.total(), 3 + 3 * 6);
  int64_t timed = 0, waits = 0;
  for (int64_t i = 0; i < steps.total(); ++i) {
    timed += steps.timed(i);
    waits += steps.waits_before(i);
  }
  EXPECT_EQ(timed, 12);
  EXPECT_EQ(waits, 3);
  EXPECT_FALSE(steps.timed(3));
  EXPECT_FALSE(steps.timed(4));
  EXPECT_TRUE(steps.timed(5));
  EXPECT_FALSE(steps.timed(9));
  EXPECT_TRUE(steps.waits_before(steps.total()));  // before it finishes
}

TEST(TurnChannel, without_a_channel_nobody_waits) {
  auto none = TurnChannel::open(Turns{4, 2, ""});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->wait().ok());
}

TEST(TurnChannel, a_channel_that_is_not_there_is_named) {
  const auto missing = TurnChannel::open(Turns{4, 2, "/nonexistent"});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().what.find("/nonexistent"), std::string::npos);
}

}  // namespace
}  // namespace kl::trainer
