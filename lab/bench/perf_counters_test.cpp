#include <lab/bench/perf_counters.hpp>

#include <lab/core/clock.hpp>

#include <gtest/gtest.h>

#include <linux/perf_event.h>
#include <unistd.h>

namespace kl {
namespace {

void spin_ms(int64_t ms) {
  const int64_t end = monotonic_ns() + ms * 1'000'000;
  while (monotonic_ns() < end) {
  }
}

TEST(PerfCounters, CountOnlyBetweenStartAndStop) {
  PerfCounters counters(getpid(), {{"task_clock_ns", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK}});
  spin_ms(20);
  counters.start();
  spin_ms(20);
  counters.stop();
  spin_ms(20);
  const auto readings = counters.read();
  ASSERT_EQ(readings.size(), 1u);
  if (!readings[0].value) GTEST_SKIP() << readings[0].missing;
  EXPECT_GT(*readings[0].value, 1e6);
  EXPECT_LT(*readings[0].value, 35e6);
}

TEST(PerfCounters, WhatCannotBeCountedSaysWhy) {
  const auto readings = PerfCounters(getpid(), {{"no such event", PERF_TYPE_HARDWARE, 999}}).read();
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_FALSE(readings[0].value);
  EXPECT_FALSE(readings[0].missing.empty());
  for (const auto& reading : PerfCounters(getpid(), hardware_events()).read())
    EXPECT_NE(reading.value.has_value(), !reading.missing.empty()) << reading.name;
}

}  // namespace
}  // namespace kl
