#include <lab/bench/calibration.hpp>
#include <lab/bench/copy_ceiling.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace kl {
namespace {

std::vector<Ceiling> two_by_two() {
  return {{1000, 0.5, true, 10, ""}, {100000, 0.5, true, 30, ""},
          {1000, 1.0, true, 20, ""}, {100000, 1.0, true, 40, ""},
          {1000, 0.5, false, 100, ""}};
}

TEST(Ceiling, MeasuredPointsComeBackExactly) {
  EXPECT_DOUBLE_EQ(*ceiling_gb_per_s(two_by_two(), 1000, 0.5), 10);
  EXPECT_DOUBLE_EQ(*ceiling_gb_per_s(two_by_two(), 100000, 1.0), 40);
}

TEST(Ceiling, FootprintIsInterpolatedOnALogScaleAndMixLinearly) {
  EXPECT_DOUBLE_EQ(*ceiling_gb_per_s(two_by_two(), 10000, 0.5), 20);
  EXPECT_DOUBLE_EQ(*ceiling_gb_per_s(two_by_two(), 1000, 0.75), 15);
  EXPECT_DOUBLE_EQ(*ceiling_gb_per_s(two_by_two(), 10000, 0.75), 25);
}

TEST(Ceiling, OutsideTheMeasuredRangeTheNearestPointHolds) {
  EXPECT_DOUBLE_EQ(*ceiling_gb_per_s(two_by_two(), 1, 0.1), 10);
  EXPECT_DOUBLE_EQ(*ceiling_gb_per_s(two_by_two(), 1e12, 1.0), 40);
}

TEST(Ceiling, WarmAndColdAreNeverMixedAndNothingMeasuredIsNothing) {
  EXPECT_DOUBLE_EQ(*ceiling_gb_per_s(two_by_two(), 1000, 1.0, false), 100);
  EXPECT_FALSE(ceiling_gb_per_s(std::vector<Ceiling>{}, 1000, 0.5).has_value());
}

TEST(Calibration, SurvivesARoundTripThroughJson) {
  auto calibration = new_record<Calibration>();
  calibration.status = Status::ok;
  calibration.ceilings = two_by_two();
  calibration.aa["smoke"] = {0.02, 8, 0.021, 4.0, 100, {0.01, -0.02}};
  calibration.seam_share["smoke"]["rmsnorm"] = 0.07;
  const auto back = from_json<Calibration>(to_json(calibration));
  ASSERT_TRUE(back.ok()) << back.error().what;
  EXPECT_EQ(to_json(*back), to_json(calibration));
}

TEST(CopyProbe, MovesTheFootprintItSaysAtTheMixItSays) {
  CopyProbe probe;
  probe.footprints_bytes = {1 << 20};
  probe.read_fractions = {0.5, 2.0 / 3, 1.0};
  probe.passes = 3;
  const auto ceilings = measure_copy_ceilings(probe);
  ASSERT_EQ(ceilings.size(), 6u);
  for (const Ceiling& c : ceilings) {
    EXPECT_NEAR(static_cast<double>(c.footprint_bytes), 1 << 20, 20000);
    EXPECT_GT(c.gb_per_s, 0.01);
    EXPECT_LT(c.gb_per_s, 10000);
    EXPECT_FALSE(c.method.empty());
  }
  EXPECT_DOUBLE_EQ(ceilings[0].read_fraction, 0.5);
  EXPECT_NEAR(ceilings[2].read_fraction, 2.0 / 3, 1e-9);
  EXPECT_DOUBLE_EQ(ceilings[4].read_fraction, 1.0);
}

TEST(Timer, ResolutionIsPositiveAndUnderAMillisecond) {
  const int64_t resolution = measure_timer_resolution_ns();
  EXPECT_GT(resolution, 0);
  EXPECT_LT(resolution, 1'000'000);
}

}  // namespace
}  // namespace kl
