// A user who looks too often, or runs again until the answer pleases.
#include "simulation.hpp"

#include <lab/stats/repeated_tries.hpp>

#include <gtest/gtest.h>

namespace kl::simulation {
namespace {

bool faster(std::span<const double> pairs) {
  return stats::decide_pairs(pairs, kBareLooks).decision == stats::AbDecision::faster;
}

TEST(Peeking, AskingAfterEveryPairGivesNoOtherAnswer) {
  Random random(101);
  for (int i = 0; i < 500; ++i) {
    const auto pairs = normal_pairs(16, 0, 1, random);
    bool ever = false;
    for (size_t n = 1; n <= pairs.size(); ++n) ever |= calls_a_difference(std::span(pairs).first(n));
    ASSERT_EQ(ever, calls_a_difference(pairs));
  }
}

TEST(Peeking, RunningAgainUntilHappyIsShownAsTriesAndNeedsAConfirmation) {
  Random random(103);
  constexpr int kUsers = 1'000, kPatience = 20;
  int happy = 0, first_try = 0, promotable = 0;
  for (int user = 0; user < kUsers; ++user) {
    stats::Tries tries{.count = 0};
    bool won = false;
    while (!won && tries.count < kPatience) {
      ++tries.count;
      won = faster(normal_pairs(16, 0, 1, random));
    }
    if (!won) continue;
    ++happy;
    first_try += tries.count == 1;
    ASSERT_EQ(tries.needs_confirmation(), tries.count > 1);
    if (tries.needs_confirmation()) tries.confirmed = faster(normal_pairs(16, 0, 1, random));
    promotable += !tries.needs_confirmation();
  }
  // Without a confirmation four users in ten would promote noise; with it, one in twenty at most.
  EXPECT_NEAR(static_cast<double>(happy) / kUsers, stats::chance_of_any(0.0272, kPatience), 0.05);
  EXPECT_LT(promotable, 0.06 * kUsers);
  EXPECT_GT(happy, 0.3 * kUsers);
  EXPECT_GE(promotable, first_try);
}

}  // namespace
}  // namespace kl::simulation
