// What the rules find when there is something to find.
#include "simulation.hpp"

#include <lab/stats/bench_verdict.hpp>
#include <lab/stats/sample_size.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace kl::simulation {
namespace {

using stats::AbDecision;

struct Counts {
  int of[5] = {};
  double pairs = 0;
  int repeats = 0;
  double share(AbDecision decision) const {
    return static_cast<double>(of[static_cast<size_t>(decision)]) / repeats;
  }
};

Counts compare(double effect, double pair_sd, const stats::AbRule& rule, uint64_t seed, int repeats) {
  Random random(seed);
  Counts counts{.repeats = repeats};
  for (int i = 0; i < repeats; ++i) {
    const auto look = stats::decide_pairs(normal_pairs(16, effect, pair_sd, random), rule);
    ++counts.of[static_cast<size_t>(look.decision)];
    counts.pairs += static_cast<double>(look.pairs) / repeats;
  }
  return counts;
}

TEST(Power, AQuietMachineFindsOnePercentInFourToFivePairs) {
  const auto rule = *stats::ab_rule(0.0014);
  const auto faster = compare(-0.01, 0.0014, rule, 3, 4'000);
  EXPECT_GE(faster.share(AbDecision::faster), 0.99);
  EXPECT_GE(faster.pairs, 4);
  EXPECT_LE(faster.pairs, 5);
  const auto slower = compare(0.01, 0.0014, rule, 5, 4'000);
  EXPECT_GE(slower.share(AbDecision::slower), 0.99);
  EXPECT_LE(slower.pairs, 5);
}

TEST(Power, AQuietMachineSeesThatNothingChanged) {
  const auto same = compare(0, 0.0014, *stats::ab_rule(0.0014), 7, 4'000);
  EXPECT_GE(same.share(AbDecision::equivalent), 0.99);
}

TEST(Power, ANoisyMachineSaysThatItCannotTellOnePercent) {
  const auto rule = *stats::ab_rule(0.01);
  for (const double effect : {-0.01, 0.01}) {
    const auto counts = compare(effect, 0.01, rule, 11, 10'000);
    EXPECT_GE(counts.share(AbDecision::inconclusive), 0.90);
    EXPECT_LE(counts.share(effect < 0 ? AbDecision::slower : AbDecision::faster), 0.001);
  }
}

TEST(Power, TheWrongSignIsNeverSeenFromOnePercentOn) {
  const auto rule = *stats::ab_rule(0.01);
  for (const double effect : {0.01, 0.015, 0.02, 0.03}) {
    EXPECT_LE(compare(-effect, 0.01, rule, 13, 5'000).share(AbDecision::slower), 0.001) << effect;
    EXPECT_LE(compare(effect, 0.01, rule, 17, 5'000).share(AbDecision::faster), 0.001) << effect;
  }
}

TEST(Power, TheStatedPowerIsALowerBoundThatIsNotIdle) {
  for (const double sd : {0.003, 0.006}) {
    const stats::AbRule rule{.delta = 0.006, .stop_when_futile = false};
    const double effect = std::log1p(0.01);
    const double stated = stats::power_beyond(effect, rule.delta, sd, 16, 2.63);
    const double found = compare(-effect, sd, rule, 19, 4'000).share(AbDecision::faster);
    EXPECT_LE(stated, found + 0.015) << sd;
    EXPECT_GE(stated, found - 0.10) << sd;
  }
}

TEST(Power, FutilityCostsHardlyAnyDecision) {
  stats::AbRule rule = *stats::ab_rule(0.006);
  const auto stopping = compare(-0.012, 0.006, rule, 29, 4'000);
  rule.stop_when_futile = false;
  const auto going_on = compare(-0.012, 0.006, rule, 29, 4'000);
  EXPECT_GE(stopping.share(AbDecision::faster), going_on.share(AbDecision::faster) - 0.05);
  EXPECT_LE(stopping.pairs, going_on.pairs);
}

TEST(Power, NToDecideDecidesNineTimesInTen) {
  Random random(31);
  const auto asked = stats::decide_bench(normal_pairs(10, -0.015, 0.02, random), stats::kBenchNormal);
  ASSERT_EQ(asked.status, Status::inconclusive);
  const int n = static_cast<int>(asked.n_to_decide);
  const double decided = rate(500, [&] {
    const auto verdict = stats::decide_bench(
        normal_pairs(n, asked.mean_log_ratio, asked.sd, random), stats::kBenchNormal);
    return verdict.status != Status::inconclusive;
  });
  EXPECT_NEAR(decided, 0.9, 0.05) << n;
}

}  // namespace
}  // namespace kl::simulation
