// A/A comparisons: how often the rules see a difference where there is none.
#include "simulation.hpp"

#include <lab/stats/bench_verdict.hpp>
#include <lab/stats/moments.hpp>
#include <lab/stats/paired_t.hpp>
#include <lab/stats/signed_rank.hpp>

#include <gtest/gtest.h>

#include <map>

namespace kl::simulation {
namespace {

constexpr double kBound = 0.061;  // of a nominal 5 %: three standard errors of 4,000 comparisons

bool t_interval_excludes_zero(std::span<const double> pairs) {
  const auto interval = stats::t_interval_at(pairs, 2.13145, 0.95);  // t(0.975, 15)
  return interval.below(0) || interval.above(0);
}

// The 95 % t interval of 16 pairs, for each noise and order.
std::map<std::pair<Noise, Order>, double> fixed_size_rates() {
  std::map<std::pair<Noise, Order>, double> rates;
  Random random(20261201);
  for (const Noise noise : kAllNoise)
    for (const Order order : kAllOrders)
      rates[{noise, order}] = rate(40'000, [&] {
        return t_interval_excludes_zero(differences(run(noise, order, 16, 0, random)));
      });
  return rates;
}

TEST(FalseVerdicts, AbbaKeepsItsRateUnderEveryNoiseAndAabbDoesNot) {
  auto rates = fixed_size_rates();
  for (const Noise noise : kAllNoise) {
    const double abba = rates[{noise, Order::abba}];
    EXPECT_LE(abba, kBound) << name(noise);
    EXPECT_GT(abba, 0.01) << name(noise) << ": a rule that never speaks would pass as well";
    EXPECT_LE((rates[{noise, Order::random}]), kBound) << name(noise);
  }
  EXPECT_NEAR((rates[{Noise::independent, Order::abba}]), 0.05, 0.004);
  EXPECT_GT((rates[{Noise::linear_drift, Order::aabb}]), 0.99);
  EXPECT_GT((rates[{Noise::linear_drift, Order::abab}]), 0.09);
  EXPECT_GT((rates[{Noise::ar1, Order::aabb}]), 0.3);
  EXPECT_GT((rates[{Noise::sticky_clock, Order::aabb}]), 0.3);
}

double looks_rate(Noise noise, uint64_t seed) {
  Random random(seed);
  return rate(40'000, [&] {
    return looks_with(differences(run(noise, Order::abba, 16, 0, random)), stats::standard_deviation,
                      stats::kLookCriticalT);
  });
}

TEST(FalseVerdicts, TheFourLooksTogetherErrAboutOneTimeInEighteen) {
  const double looks = looks_rate(Noise::independent, 41);
  EXPECT_GT(looks, 0.051);
  EXPECT_LT(looks, 0.058);
}

// Four looks are a little more sensitive to correlation than one: AR(1) costs about 6.5 %.
TEST(FalseVerdicts, TheLooksKeepTheirRateInAbbaOrder) {
  for (const Noise noise : kAllNoise) {
    const double looks = looks_rate(noise, 43);
    EXPECT_LE(looks, noise == Noise::ar1 ? 0.069 : kBound) << name(noise);
    EXPECT_GT(looks, 0.01) << name(noise);
  }
}

// The rule itself, four thousand comparisons through decide_pairs.
TEST(FalseVerdicts, DecidePairsErrsAsItsLooksDo) {
  Random random(45);
  const double named = rate(4'000, [&] { return calls_a_difference(normal_pairs(16, 0, 1, random)); });
  EXPECT_NEAR(named, 0.0543, 0.011);
}

TEST(FalseVerdicts, TheWholeABRuleHardlyEverErrs) {
  for (const Noise noise : kAllNoise) {
    Random random(47);
    const double wrong = rate(2'000, [&] {
      auto aa = differences(run(noise, Order::abba, 8, 0, random));
      auto pairs = differences(run(noise, Order::abba, 16, 0, random));
      for (double& d : aa) d *= 0.01;
      for (double& d : pairs) d *= 0.01;
      return calls_a_difference(pairs, *stats::ab_rule(stats::standard_deviation(aa)));
    });
    EXPECT_LE(wrong, 0.01) << name(noise);
  }
}

// On a platform ten times noisier than its calibration the first look needs |t| over 4.73 + 2 · 1.0655 = 6.861; what
// else errs are four pairs that happen to lie so close together that the stop does not see the noise.
TEST(FalseVerdicts, AStoppedPlatformErrsLessThanAnUndisturbedOne) {
  for (const Noise noise : kAllNoise) {
    Random random(55);
    const double wrong = rate(4'000, [&] {
      auto pairs = differences(run(noise, Order::abba, 16, 0, random));
      for (double& d : pairs) d *= 0.02;
      return calls_a_difference(pairs, {.delta = 0.005, .aa_sd = 0.002});
    });
    EXPECT_LE(wrong, 0.01) << name(noise);
  }
}

TEST(FalseVerdicts, BenchKeepsItsRateEvenWithoutADelta) {
  for (const Noise noise : kAllNoise) {
    Random random(53);
    int named = 0;
    constexpr int kRepeats = 4'000;
    for (int i = 0; i < kRepeats; ++i) {
      const auto ratios = differences(run(noise, Order::abba, 10, 0, random));
      named += stats::decide_bench(ratios, {.delta = 0}).status != Status::inconclusive;
    }
    EXPECT_LE(named, kBound * kRepeats) << name(noise);
    EXPECT_GT(named, 0.005 * kRepeats) << name(noise);
  }
}

TEST(FalseVerdicts, BenchNeverNamesADifferenceWhenTheNoiseIsWithinDelta) {
  Random random(59);
  for (const auto& rule : {stats::kBenchQuick, stats::kBenchNormal, stats::kBenchFull}) {
    int equivalent = 0;
    for (int i = 0; i < 2'000; ++i) {
      const auto verdict =
          stats::decide_bench(normal_pairs(rule.processes, 0, rule.delta / 2, random), rule);
      ASSERT_NE(verdict.status, Status::improved);
      ASSERT_NE(verdict.status, Status::regressed);
      equivalent += verdict.status == Status::equivalent;
    }
    EXPECT_GT(equivalent, 1'500) << rule.delta;
  }
}

TEST(FalseVerdicts, WalshIntervalsCoverUnderHeavyTails) {
  Random random(61);
  const double missed = rate(10'000, [&] {
    const auto interval =
        stats::walsh_interval(log_times(Noise::heavy_tail, 10, random), 0.95);
    return interval.above(0) || interval.below(0);
  });
  EXPECT_NEAR(missed, 2 * 25 / 1024.0, 0.006);  // P(W+ <= 8) at n = 10 is 25 of 1024
}

}  // namespace
}  // namespace kl::simulation
