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
    step.seams["s"] = {{{"forward", 1}, {"backward", 1}}, ns[i] / 4};
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

// The machine slows down by half in the middle of the pair, first under the baseline's turn.
TEST(LegRatio, turns_beside_each_other_do_not_see_the_machine_change) {
  const auto baseline = measure_leg(run_of({100, 100, 100, 100, 150, 150, 150, 150}), Arm::baseline, 8, 2);
  const auto candidate = measure_leg(run_of({95, 95, 142.5, 142.5, 142.5, 142.5, 142.5, 142.5}), Arm::candidate, 8, 2);
  ASSERT_TRUE(baseline.ok() && candidate.ok());
  EXPECT_EQ(baseline->turn_ns, (std::vector<double>{100, 100, 150, 150}));
  const auto whole_baseline = measure_leg(run_of({100, 100, 100, 100, 150, 150, 150, 150}), Arm::baseline, 8);
  const auto whole_candidate = measure_leg(run_of({95, 95, 142.5, 142.5, 142.5, 142.5, 142.5, 142.5}), Arm::candidate, 8);
  // One of four turns straddles the change and is trimmed; the legs as wholes are off.
  EXPECT_NEAR(leg_ratio(*baseline, *candidate).log_ratio, std::log(0.95), 1e-12);
  EXPECT_GT(leg_ratio(*whole_baseline, *whole_candidate).log_ratio, 0.03);
}

TEST(LegRatio, ten_turns_trim_the_one_that_straddles_a_change) {
  std::vector<double> a(20, 100), b(20, 95);
  b[6] = b[7] = 142.5;
  const auto baseline = measure_leg(run_of(a), Arm::baseline, 20, 2);
  const auto candidate = measure_leg(run_of(b), Arm::candidate, 20, 2);
  EXPECT_NEAR(leg_ratio(*baseline, *candidate).log_ratio, std::log(0.95), 1e-12);
  EXPECT_NEAR(leg_ratio(*baseline, *candidate).log_total, (9 * std::log(0.95) + std::log(1.425)) / 10, 1e-12);
}

TEST(LegRatio, without_turns_it_is_that_of_the_legs) {
  const auto baseline = measure_leg(run_of({10, 10, 10}), Arm::baseline, 3);
  const auto candidate = measure_leg(run_of({9, 9, 9}), Arm::candidate, 3);
  EXPECT_NEAR(leg_ratio(*baseline, *candidate).log_ratio, std::log(0.9), 1e-12);
}

}  // namespace
}  // namespace kl
