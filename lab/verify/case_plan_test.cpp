#include <lab/verify/case_plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kl {
namespace {

Target two_dtype_target() {
  Target target;
  target.key = "probe";
  target.row_axis = "N";
  target.dtypes = {"f32", "bf16"};
  OperationSpec forward;
  forward.name = "forward";
  forward.inputs = {{.name = "x", .axes = {"N", "C"}},
                    {.name = "w", .axes = {"C"}, .optional = true}};
  forward.outputs = {{.name = "y", .axes = {"N", "C"}, .terms = "C"}};
  forward.scalars = {{"eps", 0.5}};
  target.operations = {forward};
  target.quick = {{{{"N", 4}, {"C", 33}}, "f32"},
                  {{{"N", 4}, {"C", 33}}, "bf16"},
                  {{{"N", 1}, {"C", 8}}, "f32"}};
  target.full = {{{{"N", 64}, {"C", 100}}, "f32"}};
  return target;
}

SeamShape trainer_shape() {
  SeamShape shape;
  shape.axes = {{"N", 128}, {"C", 64}};
  shape.scalars = {{"eps", 0.25}};
  shape.absent = {"w"};
  return shape;
}

const CaseGroup* group_from(const CasePlan& plan, std::string_view source) {
  for (const CaseGroup& group : plan.groups)
    if (group.source == source) return &group;
  return nullptr;
}

TEST(CasePlan, EveryGroupHasThreeSeedsAndSeveralDistributions) {
  const CasePlan plan = plan_cases(two_dtype_target(), {trainer_shape()}, false);
  for (const CaseGroup& group : plan.groups) {
    if (group.source == "present") continue;  // one case beside the trainer's own
    std::set<int> seeds;
    std::set<Distribution> distributions;
    for (const Case& item : group.cases) {
      distributions.insert(item.distribution);
      if (item.distribution == Distribution::normal) seeds.insert(item.seed_index);
    }
    EXPECT_GE(seeds.size(), 3u) << group.name();
    EXPECT_GE(distributions.size(), 4u) << group.name();
  }
}

TEST(CasePlan, HoldsTheTrainersShapeItsTailAndTheAbsentOptionals) {
  const CasePlan plan = plan_cases(two_dtype_target(), {trainer_shape()}, false);
  const CaseGroup* trainer = group_from(plan, "trainer");
  ASSERT_NE(trainer, nullptr);
  EXPECT_EQ(trainer->scalars.at("eps"), 0.25);
  EXPECT_EQ(group_from(plan, "tail")->axes.at("N"), 127);
  EXPECT_EQ(group_from(plan, "absent")->absent, (std::vector<std::string>{"w"}));
}

// dw, a sum over rows, is left away by the trainer: without these no list would try it on many rows.
TEST(CasePlan, EveryOutputIsTriedOnManyRowsAndAtTheTrainersShape) {
  const CasePlan plan = plan_cases(two_dtype_target(), {trainer_shape()}, false);
  for (const char* dtype : {"f32", "bf16"})
    EXPECT_TRUE(std::any_of(plan.groups.begin(), plan.groups.end(), [&](const CaseGroup& group) {
      return group.axes.at("N") == 4097 && group.axes.at("C") == 33 && group.dtype == dtype && group.absent.empty();
    })) << dtype;
  const CaseGroup* present = group_from(plan, "present");
  ASSERT_NE(present, nullptr);
  EXPECT_EQ(present->axes, trainer_shape().axes);
  EXPECT_TRUE(present->absent.empty());
  EXPECT_EQ(present->scalars.at("eps"), 0.25);
  std::set<int64_t> rows;
  for (const CaseGroup& group : plan_cases(two_dtype_target(), {}, true).groups) rows.insert(group.axes.at("N"));
  for (const int64_t many : {2048, 4096, 4097}) EXPECT_TRUE(rows.contains(many)) << many;
}

TEST(CasePlan, ManyRowsAreLeftAwayWhereThatWouldTakeLong) {
  Target target = two_dtype_target();
  for (CaseShape& shape : target.quick) shape.axes["C"] = 1100;
  EXPECT_EQ(group_from(plan_cases(target, {}, true), "rows"), nullptr);
}

TEST(CasePlan, EdgeDistributionsAndDegenerateShapesAreNotStrong) {
  const CasePlan plan = plan_cases(two_dtype_target(), {}, false);
  for (const CaseGroup& group : plan.groups)
    for (const Case& item : group.cases) {
      const bool edge = group.axes.at("N") == 1 || item.distribution >= Distribution::large_scale;
      EXPECT_EQ(item.strong, !edge) << case_name(group, item);
    }
}

TEST(CasePlan, NonFiniteInputsOnlyWhereTheTargetDefinesThem) {
  Target target = two_dtype_target();
  const auto has_wild = [](const CasePlan& plan) {
    return std::any_of(plan.groups.begin(), plan.groups.end(), [](const CaseGroup& g) {
      return std::any_of(g.cases.begin(), g.cases.end(),
                         [](const Case& c) { return c.distribution == Distribution::non_finite; });
    });
  };
  EXPECT_FALSE(has_wild(plan_cases(target, {}, false)));
  target.non_finite = true;
  EXPECT_TRUE(has_wild(plan_cases(target, {}, false)));
}

TEST(CasePlan, HashChangesWithAnyCaseAndNotOtherwise) {
  const Target target = two_dtype_target();
  const CasePlan plan = plan_cases(target, {trainer_shape()}, false);
  EXPECT_EQ(plan.hash(), plan_cases(target, {trainer_shape()}, false).hash());
  SeamShape other = trainer_shape();
  other.scalars["eps"] = 0.125;
  EXPECT_NE(plan.hash(), plan_cases(target, {other}, false).hash());
  EXPECT_NE(plan.hash(), plan_cases(target, {trainer_shape()}, true).hash());
  EXPECT_GT(plan_cases(target, {trainer_shape()}, true).count(), plan.count());
}

TEST(CasePlan, ADtypeWithoutStrongCasesIsRefusedByName) {
  Target target = two_dtype_target();
  target.quick.erase(target.quick.begin() + 1);
  const Outcome outcome = check_strength(target, plan_cases(target, {}, false), false);
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.error().what.find("cases.quick"), std::string::npos);
  EXPECT_NE(outcome.error().what.find("bf16"), std::string::npos);
  EXPECT_TRUE(
      check_strength(two_dtype_target(), plan_cases(two_dtype_target(), {}, false), false).ok());
}

TEST(CasePlan, OnlyTensorsThatDeclareItAreStridedAndTransposedOnlyWhereAnyLayoutIsAllowed) {
  Target target = two_dtype_target();
  const auto strided = [&] {
    std::vector<CaseGroup> found;
    for (const CaseGroup& group : plan_cases(target, {}, false).groups)
      if (group.source == "strided" && group.dtype == "f32") found.push_back(group);
    return found;
  };
  EXPECT_TRUE(strided().empty());
  target.operations[0].inputs[0].strides = StrideRule::rows;
  auto found = strided();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].strides.at("x"), (std::vector<int64_t>{36, 1}));
  EXPECT_EQ(found[1].strides.at("x"), (std::vector<int64_t>{97, 1}));
  EXPECT_FALSE(found[0].strides.contains("y"));
  target.operations[0].outputs[0].strides = StrideRule::any;
  found = strided();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[2].strides.at("y"), (std::vector<int64_t>{1, 4}));
  EXPECT_FALSE(found[2].strides.contains("x"));
}

TEST(CasePlan, TheTrainersOwnStridesAreKeptAndPartOfTheHash) {
  SeamShape shape = trainer_shape();
  const Target target = two_dtype_target();
  const std::string packed = plan_cases(target, {shape}, false).hash();
  shape.strides["x"] = {96, 1};
  const CasePlan plan = plan_cases(target, {shape}, false);
  EXPECT_EQ(group_from(plan, "trainer")->strides.at("x").at(0), 96);
  EXPECT_NE(plan.hash(), packed);
}

TEST(CasePlan, AxisLengthsAreNamesNumbersProductsOrSums) {
  const std::map<std::string, int64_t> axes = {{"N", 6}, {"C", 7}};
  EXPECT_EQ(*axis_length("N*C", axes), 42);
  EXPECT_EQ(*axis_length("3*C", axes), 21);
  EXPECT_EQ(*axis_length("N+2*C+32", axes), 52);
  EXPECT_EQ(*axis_length("", axes), 1);
  ASSERT_FALSE(axis_length("V", axes).ok());
  ASSERT_FALSE(axis_length("N+V", axes).ok());
  EXPECT_NE(axis_length("V", axes).error().what.find("V"), std::string::npos);
}

}  // namespace
}  // namespace kl
