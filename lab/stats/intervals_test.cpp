#include <lab/stats/distributions.hpp>
#include <lab/stats/moments.hpp>
#include <lab/stats/non_inferiority.hpp>
#include <lab/stats/paired_t.hpp>
#include <lab/stats/pooled_t.hpp>
#include <lab/stats/rank_interval.hpp>
#include <lab/stats/rate_bound.hpp>
#include <lab/stats/repeated_tries.hpp>
#include <lab/stats/signed_rank.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace kl::stats {
namespace {

TEST(PairedT, KnowsTheSpeedrunExample) {
  const auto test = t_test(-0.000853, 0.0019, 80);
  EXPECT_NEAR(test.t, -4.0156, 1e-3);
  EXPECT_NEAR(test.p_below, 6.7e-5, 0.1e-5);
  EXPECT_NEAR(test.p_two_sided, 2 * test.p_below, 1e-15);
  EXPECT_NEAR(test.p_above, 1 - test.p_below, 1e-12);
}

TEST(PairedT, MatchesTheTable) {
  EXPECT_NEAR(student_quantile(0.975, 2), 4.303, 5e-4);
  EXPECT_NEAR(student_quantile(0.975, 15), 2.131, 5e-4);
  EXPECT_NEAR(student_quantile(0.95, 9), 1.833, 5e-4);
  const std::vector<double> d = {1, 2, 3};
  const auto interval = t_interval(d, 0.95);
  EXPECT_DOUBLE_EQ(interval.estimate, 2);
  EXPECT_NEAR(interval.high, 2 + 4.30265 / std::sqrt(3), 1e-5);
  EXPECT_NEAR(interval.low, 2 - 4.30265 / std::sqrt(3), 1e-5);
}

TEST(PairedT, OfOneDifferenceDecidesNothing) {
  const auto interval = t_interval(std::vector<double>{-0.5}, 0.95);
  EXPECT_FALSE(interval.below(0));
  EXPECT_FALSE(interval.inside(-1, 1));
}

// A population SD makes the statistic sqrt(n/(n-1)) too large.
TEST(PairedT, APopulationSdWouldErrMoreThanTheNominalRate) {
  const auto rate = [](double degrees, double n) {
    return 2 * student_above(student_quantile(0.975, degrees) * std::sqrt((n - 1) / n), degrees);
  };
  EXPECT_NEAR(rate(2, 3), 0.0723, 1e-4);       // three pairs
  EXPECT_NEAR(rate(4, 3), 0.0860, 1e-3);       // three runs per arm, not paired
}

TEST(SignedRank, DistributionCountsSubsetsOfRanks) {
  // n = 3: sums 0 1 2 3 3 4 5 6.
  const std::vector<double> expected = {1, 1, 1, 2, 1, 1, 1};
  const auto chance = signed_rank_distribution(3);
  ASSERT_EQ(chance.size(), expected.size());
  for (size_t w = 0; w < expected.size(); ++w) EXPECT_DOUBLE_EQ(chance[w], expected[w] / 8);
}

TEST(SignedRank, DistributionMatchesEverySignOfTen) {
  std::vector<double> counted(56, 0);
  for (int signs = 0; signs < 1024; ++signs) {
    size_t w = 0;
    for (size_t rank = 1; rank <= 10; ++rank)
      if (signs >> (rank - 1) & 1) w += rank;
    counted[w] += 1.0 / 1024;
  }
  EXPECT_EQ(signed_rank_distribution(10), counted);
}

TEST(SignedRank, DistributionSumsToOneForManyPairs) {
  const auto chance = signed_rank_distribution(200);
  EXPECT_NEAR(std::accumulate(chance.begin(), chance.end(), 0.0), 1, 1e-12);
}

TEST(SignedRank, SmallestTwoSidedPIsTwoToTheOneMinusN) {
  for (int n = 1; n <= 20; ++n) {
    std::vector<double> d;
    for (int i = 1; i <= n; ++i) d.push_back(-0.01 * i);
    EXPECT_DOUBLE_EQ(signed_rank_p(d), std::pow(2.0, 1 - n)) << n;
  }
}

TEST(SignedRank, MatchesAPublishedExample) {
  // Darwin's maize heights (eighths of an inch): W- = 24 of n = 15, two-sided p = 0.041.
  const std::vector<double> d = {49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48};
  EXPECT_NEAR(signed_rank_p(d), 0.0413, 1e-4);
}

TEST(SignedRank, TiesShareTheirRankAndZerosLeave) {
  // |1| |1| |2|: ranks 1.5 1.5 3; W- = 1.5. Sums <= 1.5: {}, {1.5}, {1.5} = 3 of 8.
  EXPECT_DOUBLE_EQ(signed_rank_p(std::vector<double>{1, -1, 2}), 0.75);
  EXPECT_DOUBLE_EQ(signed_rank_p(std::vector<double>{1, 0, -1, 2, 0}), 0.75);
  EXPECT_DOUBLE_EQ(signed_rank_p(std::vector<double>{0, 0}), 1);
}

TEST(Walsh, IntervalUsesTheTabledOrderStatistics) {
  // Two-sided 5 % critical values of W: n = 6: 0, 8: 3, 10: 8, 16: 29; the interval's ends are
  // the (critical + 1)-th averages. Powers of 3 make every average distinct.
  for (const auto& [n, critical] : {std::pair{6, 0}, {8, 3}, {10, 8}, {16, 29}}) {
    std::vector<double> d;
    for (int i = 0; i < n; ++i) d.push_back(std::pow(3.0, i) * (i % 2 ? 1 : -1));
    const auto averages = walsh_averages(d);
    const auto interval = walsh_interval(d, 0.95);
    const auto rank = static_cast<size_t>(critical);
    EXPECT_EQ(interval.low, averages[rank]) << n;
    EXPECT_EQ(interval.high, averages[averages.size() - 1 - rank]) << n;
  }
}

TEST(Walsh, FivePairsDecideNothing) {
  const auto interval = walsh_interval(std::vector<double>{-1, -2, -3, -4, -5}, 0.95);
  EXPECT_DOUBLE_EQ(interval.estimate, -3);
  EXPECT_FALSE(interval.below(0));
  EXPECT_TRUE(std::isinf(interval.low));
}

TEST(Walsh, HodgesLehmannIsTheMedianOfTheAverages) {
  EXPECT_DOUBLE_EQ(walsh_interval(std::vector<double>{0, 1, 10}, 0.95).estimate, 3.0);
}

TEST(Walsh, IntervalExcludesExactlyWhatTheTestRejects) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(0.4, 1);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<double> d(6 + static_cast<size_t>(repeat) % 15);
    for (double& x : d) x = normal(random);
    const auto interval = walsh_interval(d, 0.95);
    EXPECT_EQ(interval.above(0) || interval.below(0), signed_rank_p(d) <= 0.05);
  }
}

TEST(MedianInterval, UsesTheTabledRanks) {
  EXPECT_EQ(median_rank(5, 0.95), 0U);
  EXPECT_EQ(median_rank(6, 0.95), 1U);
  EXPECT_EQ(median_rank(10, 0.95), 2U);
  EXPECT_EQ(median_rank(20, 0.95), 6U);
  EXPECT_EQ(median_rank(30, 0.95), 10U);
  EXPECT_EQ(median_rank(100, 0.95), 40U);
  std::vector<double> samples(10);
  std::iota(samples.rbegin(), samples.rend(), 1.0);
  const auto interval = median_interval(samples, 0.95);
  EXPECT_DOUBLE_EQ(interval.estimate, 5.5);
  EXPECT_DOUBLE_EQ(interval.low, 2);
  EXPECT_DOUBLE_EQ(interval.high, 9);
}

TEST(MedianInterval, CoversAtLeastAsOftenAsItSays) {
  std::mt19937_64 random(5);
  std::exponential_distribution<double> skewed(1);
  int covered = 0;
  constexpr int kRepeats = 4000;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::vector<double> samples(30);
    for (double& x : samples) x = skewed(random);
    const auto interval = median_interval(samples, 0.95);
    covered += interval.low <= std::log(2) && interval.high >= std::log(2);
  }
  // The exact coverage at n = 30 is 95.7 %.
  EXPECT_NEAR(covered / static_cast<double>(kRepeats), 0.957, 0.012);
}

TEST(RateBound, SaysWhatCleanRunsShow) {
  EXPECT_LT(rate_upper_bound(0, 59), 0.05);
  EXPECT_GT(rate_upper_bound(0, 58), 0.05);
  EXPECT_LT(rate_upper_bound(0, 299), 0.01);
  EXPECT_GT(rate_upper_bound(0, 298), 0.01);
  EXPECT_NEAR(rate_upper_bound(0, 59), 1 - std::pow(0.05, 1.0 / 59), 1e-12);
  EXPECT_GT(rate_upper_bound(1, 59), rate_upper_bound(0, 59));
  EXPECT_EQ(rate_upper_bound(0, 0), 1);
}

TEST(Tries, AWinnerOfSeveralNeedsAFreshConfirmation) {
  EXPECT_FALSE((Tries{.count = 1}.needs_confirmation()));
  EXPECT_TRUE((Tries{.count = 2}.needs_confirmation()));
  EXPECT_FALSE((Tries{.count = 2, .confirmed = true}.needs_confirmation()));
  EXPECT_NEAR(chance_of_any(0.05, 14), 0.5123, 1e-4);
}

TEST(NonInferiority, MarginIsHalfOfWhatTheTimeBuys) {
  EXPECT_NEAR(loss_margin(0.2, 0.02), 0.5 * 0.2 * std::log(1.02), 1e-15);
  EXPECT_DOUBLE_EQ(loss_margin(2, 0.1), 0.005);
  EXPECT_EQ(loss_margin(0.2, -0.01), 0);
}

TEST(NonInferiority, SeedsForNinetyPercentPower) {
  EXPECT_EQ(seeds_per_arm(0.002, 0.004), 6);  // 17.1 / 4 + 1 = 5.3
  // 17.1 is 2 (z_0.95 + z_0.9)², rounded.
  const double z = normal_quantile(0.95) + normal_quantile(0.9);
  EXPECT_NEAR(2 * z * z, 17.1, 0.05);
}

TEST(NonInferiority, DecidesByTheOneSidedBound) {
  const std::vector<double> base = {3.000, 3.001, 2.999, 3.000};
  const std::vector<double> same = {3.001, 3.000, 3.000, 2.999};
  const std::vector<double> worse = {3.011, 3.010, 3.010, 3.009};
  EXPECT_TRUE(decide_non_inferiority(base, same, 0.004).non_inferior);
  EXPECT_TRUE(decide_non_inferiority(base, worse, 0.004).inferior);
  const auto undecided = decide_non_inferiority(base, same, 0.0005);
  EXPECT_FALSE(undecided.non_inferior || undecided.inferior);
  EXPECT_GT(undecided.seeds_to_decide, 4);
  const std::vector<double> one = {3.0};
  EXPECT_FALSE(decide_non_inferiority(base, one, 0.004).non_inferior);
}

TEST(PooledT, MatchesAHandComputedExample) {
  // Means 2 and 5, variances 1 and 1, n = 3 each: half width t(0.975, 4) · sqrt(2/3).
  const auto pooled =
      pooled_t_interval(std::vector<double>{1, 2, 3}, std::vector<double>{4, 5, 6}, 0.95);
  EXPECT_DOUBLE_EQ(pooled.sd, 1);
  EXPECT_DOUBLE_EQ(pooled.interval.estimate, 3);
  EXPECT_NEAR(pooled.interval.high, 3 + 2.77645 * std::sqrt(2.0 / 3), 1e-5);
}

}  // namespace
}  // namespace kl::stats
