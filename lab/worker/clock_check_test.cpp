#include <lab/worker/clock_check.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

// A call of 1 ms on two threads, inside a bracket of 1.2 ms.
ClockEvidence honest() {
  ClockEvidence e;
  e.parent_begin_ns = 10'000'000;
  e.worker_begin_ns = 10'100'000;
  e.worker_end_ns = 11'100'000;
  e.parent_end_ns = 11'200'000;
  e.processor_ns = 2'050'000;
  e.threads = 2;
  return e;
}

TEST(ClockCheck, accepts_an_honest_call) { EXPECT_FALSE(clock_disagreement(honest())); }

TEST(ClockCheck, accepts_a_busy_machine_that_delays_the_answer) {
  auto e = honest();
  e.parent_end_ns += 50'000'000;
  EXPECT_FALSE(clock_disagreement(e));
}

TEST(ClockCheck, accepts_what_the_host_itself_spent_on_protection) {
  auto e = honest();
  e.processor_ns += 5'000'000;
  e.protection_ns = 5'000'000;
  EXPECT_FALSE(clock_disagreement(e));
}

TEST(ClockCheck, sees_a_call_longer_than_its_bracket) {
  auto e = honest();
  e.worker_end_ns = e.worker_begin_ns + 1'300'000;
  EXPECT_TRUE(clock_disagreement(e));
}

TEST(ClockCheck, sees_a_call_outside_its_bracket) {
  auto e = honest();
  e.worker_begin_ns -= 200'000;
  e.worker_end_ns -= 200'000;
  EXPECT_TRUE(clock_disagreement(e));
}

TEST(ClockCheck, sees_a_clock_that_runs_backwards) {
  auto e = honest();
  e.worker_end_ns = e.worker_begin_ns - 1;
  EXPECT_TRUE(clock_disagreement(e));
}

TEST(ClockCheck, sees_work_that_the_worker_does_not_admit) {
  auto e = honest();
  e.worker_end_ns = e.worker_begin_ns + 100'000;  // says a tenth
  EXPECT_TRUE(clock_disagreement(e));
}

TEST(ClockCheck, tolerates_300_us_and_a_quarter_of_processor_time) {
  auto e = honest();
  e.worker_end_ns = e.worker_begin_ns + 500'000;
  e.processor_ns = 1'000'000 + 300'000;
  EXPECT_FALSE(clock_disagreement(e));
  e.processor_ns = 1'000'000 + 333'000;
  EXPECT_FALSE(clock_disagreement(e)) << "beyond 300 µs, but within a quarter";
  e.processor_ns = 1'000'000 + 340'000;
  EXPECT_TRUE(clock_disagreement(e));
}

}  // namespace
}  // namespace kl
