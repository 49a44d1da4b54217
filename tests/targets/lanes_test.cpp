// The vector helpers of kernel authors against the same thing lane by lane, in this machine's
// widest vectors (tests/targets/CMakeLists.txt).
#include <kernel_lab/exponential.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace {

using kl::kLanes;
using kl::Lanes;

Lanes random_lanes() {
  static std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  Lanes v{};
  for (int i = 0; i < kLanes; ++i) v[i] = normal(random);
  return v;
}

TEST(Lanes, SumsOfFourAreEachTheSumOfOneToTheBit) {
  for (int round = 0; round < 100; ++round) {
    const Lanes v[4] = {random_lanes(), random_lanes(), random_lanes(), random_lanes()};
    const kl::Four sums = kl::sums_of(v[0], v[1], v[2], v[3]);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(sums.of[i], kl::sum_of(v[i]));
  }
}

TEST(Lanes, EveryLaneCountsInASumAndMayBeTheLargest) {
  for (int lane = 0; lane < kLanes; ++lane) {
    Lanes one{}, low = kl::lanes(-2);
    one[lane] = 1;
    low[lane] = -1;
    EXPECT_EQ(kl::sum_of(one), 1);
    EXPECT_EQ(kl::largest_of(low), -1);
    const kl::Four sums = kl::sums_of(one, one * 2.0f, one * 3.0f, one * 4.0f);
    const kl::Four largest = kl::largest_of(low, low * 0.5f, low * 3.0f, one);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(sums.of[i], static_cast<float>(i + 1));
    EXPECT_EQ(largest.of[0], -1);
    EXPECT_EQ(largest.of[1], -0.5f);
    EXPECT_EQ(largest.of[2], -3);
    EXPECT_EQ(largest.of[3], 1);
  }
}

TEST(Lanes, LoadSomeReadsTheOthersFromElsewhere) {
  float from[kLanes];
  for (int i = 0; i < kLanes; ++i) from[i] = static_cast<float>(i + 1);
  for (int count = 1; count < kLanes; ++count) {
    const Lanes v = kl::load_some(from, count, kl::lanes(-7));
    for (int i = 0; i < kLanes; ++i) EXPECT_EQ(v[i], i < count ? from[i] : -7);
  }
}

TEST(Lanes, ExpOfNegativeIsRightToAFewUnitsInTheLastPlace) {
  for (float x = -103; x <= 0; x += 0.00371f) {
    const double right = std::exp(double{x}), got = kl::exp_of_negative(kl::lanes(x))[kLanes - 1];
    const double unit = right * 0x1p-23 + 0x1p-149;  // the latter below the normal numbers
    ASSERT_LE(std::fabs(got - right), 2.5 * unit) << "exp(" << x << ")";
  }
}

TEST(Lanes, ExpOfNegativeIsExactAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kl::exp_of_negative(kl::lanes(0))[0], 1);
  for (const float x : {-110.0f, -1e4f, -1e30f, std::numeric_limits<float>::lowest(), -infinity})
    EXPECT_EQ(kl::exp_of_negative(kl::lanes(x))[0], 0) << "exp(" << x << ")";
  EXPECT_TRUE(std::isnan(kl::exp_of_negative(kl::lanes(std::nanf("")))[0]));
}

}  // namespace
