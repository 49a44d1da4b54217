#include <lab/stats/moments.hpp>
#include <lab/stats/quantile.hpp>
#include <lab/stats/trimmed_mean.hpp>
#include <lab/stats/variance_components.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace kl::stats {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> samples(static_cast<size_t>(n));
  std::iota(samples.begin(), samples.end(), 1.0);
  std::shuffle(samples.begin(), samples.end(), std::mt19937(7));
  return samples;
}

TEST(Quantile, InterpolatesBetweenOrderStatisticsAtNMinusOneTimesP) {
  EXPECT_DOUBLE_EQ(*quantile(one_to(5), 0.5), 3.0);
  EXPECT_DOUBLE_EQ(*quantile(one_to(4), 0.5), 2.5);
  EXPECT_DOUBLE_EQ(*quantile(one_to(10), 0.9), 9.1);
  EXPECT_DOUBLE_EQ(*quantile(one_to(10), 0.1), 1.9);
  EXPECT_DOUBLE_EQ(*quantile(one_to(11), 0.25), 3.5);
  EXPECT_DOUBLE_EQ(*quantile(one_to(100), 0.99), 99.01);
  EXPECT_DOUBLE_EQ(*quantile(one_to(101), 0.99), 100.0);
}

TEST(Quantile, RefusesATailTheSampleCannotKnow) {
  const auto p99 = quantile(one_to(99), 0.99);
  ASSERT_FALSE(p99.ok());
  EXPECT_EQ(p99.error().what, "p99 of 99 samples");
  EXPECT_EQ(p99.error().remedy, "take at least 100 samples");
  EXPECT_TRUE(quantile(one_to(100), 0.99).ok());
  EXPECT_FALSE(quantile(one_to(999), 0.999).ok());
  EXPECT_TRUE(quantile(one_to(1000), 0.999).ok());
  EXPECT_FALSE(quantile(one_to(99), 0.01).ok());
  EXPECT_TRUE(quantile(one_to(20), 0.95).ok());
  EXPECT_FALSE(quantile(one_to(19), 0.95).ok());
}

TEST(Quantile, RefusesWhatIsNotAQuantileOfNumbers) {
  EXPECT_FALSE(quantile(one_to(5), 0).ok());
  EXPECT_FALSE(quantile(one_to(5), 1).ok());
  EXPECT_FALSE(quantile(one_to(5), std::nan("")).ok());
  EXPECT_FALSE(quantile({}, 0.5).ok());
  const std::vector<double> failed = {1, 2, std::numeric_limits<double>::infinity()};
  EXPECT_FALSE(quantile(failed, 0.5).ok());
}

TEST(Median, IsTheMiddleOfAnyNumberOfSamples) {
  EXPECT_DOUBLE_EQ(median(one_to(1)), 1.0);
  EXPECT_DOUBLE_EQ(median(one_to(2)), 1.5);
  EXPECT_DOUBLE_EQ(median(one_to(7)), 4.0);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(TrimmedMean, DropsTenPercentAtEachEnd) {
  EXPECT_DOUBLE_EQ(trimmed_mean(one_to(10)), 5.5);
  std::vector<double> stalled = one_to(10);
  *std::max_element(stalled.begin(), stalled.end()) = 1e9;
  EXPECT_DOUBLE_EQ(trimmed_mean(stalled), 5.5);
  // Nine samples have no whole tenth, so nothing is dropped.
  stalled = {1, 1, 1, 1, 1, 1, 1, 1, 10};
  EXPECT_DOUBLE_EQ(trimmed_mean(stalled), 2.0);
  // 30 samples lose three at each end: of 27 ones and three 100s, no 100 stays.
  std::vector<double> thirty(27, 1.0);
  thirty.insert(thirty.end(), 3, 100.0);
  EXPECT_DOUBLE_EQ(trimmed_mean(thirty), 1.0);
  thirty[0] = 100.0;
  EXPECT_DOUBLE_EQ(trimmed_mean(thirty), (23 + 100) / 24.0);
  EXPECT_THROW(trimmed_mean(thirty, 0.5), std::invalid_argument);
  EXPECT_TRUE(std::isnan(trimmed_mean({})));
}

TEST(Variance, HasNMinusOneInTheDenominator) {
  const std::vector<double> samples = {2, 4, 4, 4, 5, 5, 7, 9};
  EXPECT_DOUBLE_EQ(variance(samples), 32.0 / 7);
  EXPECT_TRUE(std::isnan(variance(std::vector<double>{1.0})));
}

TEST(VarianceComponents, AreTheDifferencesOfTheLevels) {
  // Blocks {0,2} and {4,6} have variance 2 inside and means 1 and 5: S_2² = 8. The second process
  // is the first plus 10: S_3² = 50.
  const std::vector<ProcessBlocks> processes = {{{0, 2}, {4, 6}}, {{10, 12}, {14, 16}}};
  const auto components = variance_components(processes);
  ASSERT_TRUE(components.ok());
  EXPECT_DOUBLE_EQ(components->sample, 2.0);
  EXPECT_DOUBLE_EQ(components->block, 8.0 - 2.0 / 2);
  EXPECT_DOUBLE_EQ(components->process, 50.0 - 8.0 / 2);
}

TEST(VarianceComponents, AreClippedAtZero) {
  const std::vector<ProcessBlocks> same_means = {{{0, 2}, {2, 0}}, {{0, 2}, {2, 0}}};
  const auto components = variance_components(same_means);
  ASSERT_TRUE(components.ok());
  EXPECT_DOUBLE_EQ(components->sample, 2.0);
  EXPECT_DOUBLE_EQ(components->block, 0.0);
  EXPECT_DOUBLE_EQ(components->process, 0.0);
}

TEST(VarianceComponents, NeedABalancedDesign) {
  const std::vector<ProcessBlocks> ragged = {{{0, 2}, {4, 6}}, {{10, 12}, {14, 16, 18}}};
  EXPECT_FALSE(variance_components(ragged).ok());
  const std::vector<ProcessBlocks> single = {{{0, 2}, {4, 6}}};
  EXPECT_FALSE(variance_components(single).ok());
}

TEST(VarianceComponents, RecoverWhatAGeneratorPutIn) {
  std::mt19937_64 random(20261201);
  std::normal_distribution<double> normal;
  std::vector<ProcessBlocks> processes(400, ProcessBlocks(12, Block(8)));
  for (auto& process : processes) {
    const double of_process = 3 * normal(random);
    for (auto& block : process) {
      const double of_block = 2 * normal(random);
      for (auto& sample : block) sample = of_process + of_block + normal(random);
    }
  }
  const auto components = variance_components(processes);
  ASSERT_TRUE(components.ok());
  EXPECT_NEAR(components->sample, 1, 0.03);
  EXPECT_NEAR(components->block, 4, 0.4);
  EXPECT_NEAR(components->process, 9, 2);
}

TEST(Repetitions, FollowCostAndSpread) {
  const VarianceComponents components{.sample = 16, .block = 4, .process = 1};
  // sqrt(9/1 * 16/4) = 6 samples, sqrt(100/9 * 4/1) = 6.67 blocks.
  const auto best = best_repetitions(components, {.sample = 1, .block = 9, .process = 100}, 1000);
  EXPECT_EQ(best.samples_per_block, 6);
  EXPECT_EQ(best.blocks_per_process, 7);
}

TEST(Repetitions, GoWhereTheSpreadIs) {
  const auto quiet_above =
      best_repetitions({.sample = 1, .block = 0, .process = 1}, LevelCosts{}, 50);
  EXPECT_EQ(quiet_above.samples_per_block, 50);
  EXPECT_EQ(quiet_above.blocks_per_process, 1);
}

}  // namespace
}  // namespace kl::stats
