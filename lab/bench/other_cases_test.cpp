#include <lab/bench/other_cases.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

CaseShape listed(int64_t n, int64_t c, const std::string& dtype = "f32") {
  return {{{"N", n}, {"C", c}}, dtype};
}

TEST(CasesBesideTheStep, AreTheTwoLargestThatAreCheapAndNotTheStepsOwn) {
  Target target;
  target.operations.resize(1);
  target.operations[0].name = "forward";
  target.quick = {listed(1, 8), listed(64, 128)};
  target.full = {listed(64, 128), listed(100, 100), listed(512, 512), listed(128, 512),
                 listed(70, 70), listed(128, 256, "bf16")};
  SeamShape step;
  step.axes = {{"N", 100}, {"C", 600}};
  step.scalars = {{"eps", 0.5}};
  step.absent = {"w"};
  step.strides = {{"x", {700, 1}}};
  step.calls_per_step = {{"forward", 6}};
  const auto beside = cases_beside_the_step(target, {step});
  ASSERT_EQ(beside.size(), 2u);
  EXPECT_EQ(beside[0].axes.at("C"), 100);
  EXPECT_EQ(beside[1].axes.at("C"), 128);
  EXPECT_EQ(beside[1].axes.at("N"), 64);
  EXPECT_EQ(beside[0].calls_of("forward"), 0);
  EXPECT_EQ(beside[0].absent, step.absent);
  EXPECT_EQ(beside[0].scalars, step.scalars);
  EXPECT_TRUE(beside[0].strides.empty());
  step.axes = {{"N", 100}, {"C", 200}};
  EXPECT_EQ(cases_beside_the_step(target, {step}).at(0).axes.at("C"), 100);
  step.axes = {{"N", 10}, {"C", 20}};
  EXPECT_TRUE(cases_beside_the_step(target, {step}).empty());
}

TEST(CasesBesideTheStep, AreNotThoseWithLongerRowsThanAnyOfTheStep) {
  Target target;
  target.quick = {listed(2, 4097), listed(64, 100)};
  SeamShape step;
  step.axes = {{"N", 512}, {"C", 128}};
  ASSERT_EQ(cases_beside_the_step(target, {step}).size(), 1u);
  EXPECT_EQ(cases_beside_the_step(target, {step})[0].axes.at("C"), 100);
  step.axes = {{"N", 512}, {"C", 8192}};
  EXPECT_EQ(cases_beside_the_step(target, {step}).size(), 2u);
}

}  // namespace
}  // namespace kl
