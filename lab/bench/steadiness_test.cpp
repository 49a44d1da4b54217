#include <lab/bench/steadiness.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

ClockSample at(double seconds, std::optional<double> stolen = {},
               std::optional<int64_t> throttled = {}, std::optional<double> mhz = {}) {
  return {static_cast<int64_t>(seconds * 1e9), 2, stolen, throttled, mhz};
}

TEST(Disturbance, WhatCannotBeReadDisturbsNothing) {
  EXPECT_EQ(disturbance(at(0), at(1), 0), "");
  EXPECT_EQ(disturbance(at(0, 5.0), at(1), 0), "");
}

TEST(Disturbance, StolenTimeIsHeldAgainstTheProcessorsTimeOfTheBlock) {
  EXPECT_NE(disturbance(at(0, 5.0), at(0.1, 5.06), 0), "");   // 60 ms of 200
  EXPECT_EQ(disturbance(at(0, 5.0), at(1.0, 5.3), 0), "");    // 300 ms of 2000: a busy host
  EXPECT_EQ(disturbance(at(0, 5.0), at(0.01, 5.02), 0), "");  // two ticks are no measurement
}

TEST(Disturbance, AThrottleEventOrALowFrequencyIsNamed) {
  EXPECT_EQ(disturbance(at(0, {}, 3), at(1, {}, 3), 0), "");
  EXPECT_NE(disturbance(at(0, {}, 3), at(1, {}, 5), 0).find("2 thermal"), std::string::npos);
  EXPECT_EQ(disturbance(at(0), at(1, {}, {}, 2900), 3000), "");
  EXPECT_NE(disturbance(at(0), at(1, {}, {}, 1800), 3000).find("1800 MHz"), std::string::npos);
}

TEST(Disturbance, ADeviceThatIsThrottledOrSharedIsNamed) {
  ClockSample quiet = at(0), hot = at(1), shared = at(1);
  quiet.device_throttled.emplace();
  quiet.device_foreign = 0;
  EXPECT_EQ(disturbance(quiet, quiet, 0), "");
  hot.device_throttled = {"thermal slowdown"};
  EXPECT_NE(disturbance(quiet, hot, 0).find("thermal slowdown"), std::string::npos);
  shared.device_foreign = 1;
  EXPECT_NE(disturbance(quiet, shared, 0).find("another process"), std::string::npos);
}

TEST(Disturbance, TheLabsOwnWorkerInAContainerIsNotForeign) {
  EXPECT_EQ(count_foreign({}), 0);
  EXPECT_EQ(count_foreign({"pid 4711 (not visible here), 512 MiB"}), 0);
  EXPECT_EQ(count_foreign({"pid 4711 (not visible here), 512 MiB", "pid 12 (not visible here), 1 MiB"}), 1);
  EXPECT_EQ(count_foreign({"pid 4711 (python3), 512 MiB"}), 1);
}

TEST(Disturbance, TheMachinesReadingsAreOfTheProcessorsThisProcessMayUse) {
  const ClockSample sample = sample_clocks();
  EXPECT_GE(sample.processors, 1);
  EXPECT_GT(sample.at_ns, 0);
}

}  // namespace
}  // namespace kl
