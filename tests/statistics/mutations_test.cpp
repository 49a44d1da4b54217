// The rules with one mistake each. Every mistake breaks a property that the real rule keeps in
// false_verdicts_test.cpp or power_test.cpp: those tests would notice it.
#include "simulation.hpp"

#include <lab/stats/distributions.hpp>
#include <lab/stats/moments.hpp>
#include <lab/stats/pooled_t.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace kl::simulation {
namespace {

constexpr double kBound = 0.061;

double population_sd(std::span<const double> x) {
  const double n = static_cast<double>(x.size());
  return stats::standard_deviation(x) * std::sqrt((n - 1) / n);
}

// The same tail, spent on one side only but read in both directions.
std::array<double, 4> one_sided_critical() {
  std::array<double, 4> critical{};
  for (size_t i = 0; i < critical.size(); ++i) {
    const double degrees = stats::kLooks[i] - 1;
    critical[i] = stats::student_quantile(
        1 - 2 * stats::student_above(stats::kLookCriticalT[i], degrees), degrees);
  }
  return critical;
}

TEST(Mutation, TheUnmutatedCopyIsTheRule) {
  Random random(71);
  for (const Noise noise : kAllNoise) {
    for (int i = 0; i < 1'000; ++i) {
      const auto pairs = differences(run(noise, Order::abba, 16, 0.3, random));
      ASSERT_EQ(looks_with(pairs, stats::standard_deviation, stats::kLookCriticalT),
                calls_a_difference(pairs));
    }
  }
}

TEST(Mutation, APopulationSdErrsTooOften) {
  Random random(73);
  const double mutant = rate(40'000, [&] {
    return looks_with(normal_pairs(16, 0, 1, random), population_sd, stats::kLookCriticalT);
  });
  EXPECT_GT(mutant, kBound);
}

TEST(Mutation, OneSidedCriticalValuesErrTwiceAsOften) {
  Random random(79);
  const auto critical = one_sided_critical();
  const double mutant = rate(40'000, [&] {
    return looks_with(normal_pairs(16, 0, 1, random), stats::standard_deviation, critical);
  });
  EXPECT_GT(mutant, 0.09);
}

TEST(Mutation, AbabErrsTooOftenUnderDrift) {
  Random random(83);
  const double mutant = rate(40'000, [&] {
    return looks_with(differences(run(Noise::linear_drift, Order::abab, 16, 0, random)),
                      stats::standard_deviation, stats::kLookCriticalT);
  });
  EXPECT_GT(mutant, 0.08);
}

// A session that wanders by 1 % while neighbours differ by 0.14 %: pairing finds 1 %, arms do not.
TEST(Mutation, AnUnpairedTestLosesItsPower) {
  Random random(89);
  const auto rule = *stats::ab_rule(0.0014);
  int paired = 0, unpaired = 0;
  constexpr int kRepeats = 4'000;
  std::normal_distribution<double> session(0, 0.01), leg(0, 0.0014 / std::sqrt(2));
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    Arms arms;
    for (int i = 0; i < 16; ++i) {
      const double common = session(random);
      arms.baseline.push_back(common + leg(random));
      arms.candidate.push_back(common + leg(random) - 0.01);
    }
    paired += stats::decide_pairs(differences(arms), rule).decision == stats::AbDecision::faster;
    bool found = false;
    for (size_t i = 0; i < stats::kLooks.size() && !found; ++i) {
      const auto n = static_cast<size_t>(stats::kLooks[i]);
      const auto pooled = stats::pooled_t_interval(std::span(arms.baseline).first(n),
                                                   std::span(arms.candidate).first(n), 0.95);
      found = pooled.interval.below(-rule.delta);
    }
    unpaired += found;
  }
  EXPECT_GE(paired, 0.99 * kRepeats);
  EXPECT_LT(unpaired, 0.6 * kRepeats);
}

}  // namespace
}  // namespace kl::simulation
