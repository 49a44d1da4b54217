#include <lab/integration/leg.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace kl {
namespace {

TrainerRun run_of(const std::vector<double>& ns, int warmup = 0) {
  TrainerRun run;
  for (size_t i = 0; i < ns.size(); ++i) {
    TrainerStep step;
    step.index = static_cast<int64_t>(i);
    step.warmup = i < static_cast<size_t>(warmup);
    step.ns = ns[i];
    step.tokens = 100;
    step.seams["s"] = {1, 1, ns[i] / 4};
    run.steps.push_back(step);
  }
  return run;
}

TEST(MeasureLeg, trims_a_tenth_at_each_end_but_counts_all_tokens_and_time) {
  // Ten steps: one lowest and one highest go, eight of 10 stay.
  const auto leg = measure_leg(run_of({10, 10, 10, 10, 10, 10, 10, 10, 1, 1000}), Arm::baseline, 10);
  ASSERT_TRUE(leg.ok());
  EXPECT_DOUBLE_EQ(leg->step_ns, 10);
  EXPECT_DOUBLE_EQ(leg->log_ns, std::log(10));
  EXPECT_DOUBLE_EQ(leg->tokens_per_s, 1000 / (1081e-9));
  EXPECT_DOUBLE_EQ(leg->seam_share.at("s"), 0.25);
}

TEST(MeasureLeg, warm_up_does_not_count) {
  const auto leg = measure_leg(run_of({1e6, 1e6, 7, 7, 7}, 2), Arm::candidate, 3);
  ASSERT_TRUE(leg.ok());
  EXPECT_DOUBLE_EQ(leg->step_ns, 7);
  EXPECT_EQ(leg->arm, "candidate");
}

TEST(MeasureLeg, another_number_of_steps_is_refused) {
  EXPECT_FALSE(measure_leg(run_of({7, 7, 7}), Arm::baseline, 4).ok());
  EXPECT_FALSE(measure_leg(run_of({7, 7, 7}), Arm::baseline, 2).ok());
}

TEST(MeasureLeg, a_step_without_duration_is_refused) {
  EXPECT_FALSE(measure_leg(run_of({7, 0, 7}), Arm::baseline, 3).ok());
  EXPECT_FALSE(measure_leg(run_of({7, std::nan(""), 7}), Arm::baseline, 3).ok());
}

TEST(StepsPerLeg, holds_what_the_time_holds_and_never_fewer_than_thirty) {
  EXPECT_EQ(steps_per_leg(1e8, 4), 40);
  EXPECT_EQ(steps_per_leg(1e9, 4), 30);
  EXPECT_EQ(steps_per_leg(1e7, 0), 150);  // 1.5 s
  EXPECT_EQ(steps_per_leg(5e7, 0), 60);   // 3 s
  EXPECT_EQ(steps_per_leg(1e8, 0), 40);   // 4 s
}

}  // namespace
}  // namespace kl
