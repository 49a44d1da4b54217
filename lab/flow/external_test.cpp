#include <lab/flow/credits.hpp>
#include <lab/flow/external.hpp>
#include <lab/flow/review.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl {
namespace {

using testing::HasSubstr;

TEST(External, APresetIsTheStemOfTheTraceInCharactersThatNoShellReads) {
  EXPECT_EQ(external_preset("t/run.sqlite"), "external:run");
  EXPECT_EQ(external_preset("run.pt.trace.json.gz"), "external:run.pt.trace");
  EXPECT_EQ(external_preset("my run; rm -rf $HOME.json"), "external:my_run__rm_-rf__HOME");
  EXPECT_EQ(external_preset("läuft.json"), "external:l__uft");
  EXPECT_EQ(external_preset(std::string(300, 'a') + ".csv").size(), 89u);
  for (const char* file : {"run.sqlite", "my run; rm -rf $HOME.json", ".json", "läuft.json"})
    EXPECT_TRUE(check_external(external_preset(file)).ok()) << file;
}

TEST(External, NamesThatNoTraceWouldGetAreRefused) {
  EXPECT_FALSE(is_external("smoke"));
  const std::vector<std::string> names = {"external:", "external:a b", "external:../x", "external:$(id)", "external:" + std::string(81, 'a')};
  for (const std::string& name : names) {
    ASSERT_TRUE(is_external(name));
    const auto checked = check_external(name);
    ASSERT_FALSE(checked.ok()) << name;
    EXPECT_EQ(checked.error().status, Status::usage);
    EXPECT_THAT(checked.error().remedy, HasSubstr("external:"));
  }
}

TargetFacts fact(const std::string& target, const std::string& starter) {
  return {.target = target, .seam = target, .category = "", .starter = starter, .share = {}, .share_from = "", .measured_ns = {},
          .floor_ns = {}, .floor_unknown = "", .gain_of_share = {}, .credited_share = 0, .credited_for = "", .not_on_path = ""};
}
trace::FamilySummary family(const std::string& name, double share, std::optional<double> window_share) {
  return {.family = name, .kernel_sum_ns = 1, .kernel_union_ns = 1, .share = share, .window_share = window_share, .count = 1};
}

TEST(External, EveryTargetOfAFamilyHasTheShareOfTheWholeFamily) {
  trace::Summary summary;
  summary.families = {family("norm", 0.4, 0.2), family("matmul", 0.6, 0.3), family("unknown", 0.1, 0.05)};
  std::vector<TargetFacts> targets = {fact("residual_rmsnorm", "no-starter"), fact("rmsnorm", "starter-ready"), fact("matmul_epilogue", "no-starter"),
                                      fact("softmax", "starter-ready")};
  add_family_shares(summary, targets);
  const Ranking ranking = rank_targets(targets, {});
  ASSERT_EQ(ranking.candidates.size(), 3u);
  EXPECT_EQ(ranking.candidates[0].target, "matmul_epilogue");
  EXPECT_DOUBLE_EQ(ranking.candidates[0].gain_bound, 0.3);
  EXPECT_EQ(ranking.candidates[1].target, "rmsnorm");  // of one family, what can be begun with
  EXPECT_EQ(ranking.candidates[2].target, "residual_rmsnorm");
  EXPECT_DOUBLE_EQ(ranking.candidates[2].share, 0.2);
  EXPECT_EQ(ranking.candidates[2].share_from, "norm kernels");
  EXPECT_THAT(ranking.candidates[2].rationale, HasSubstr("floor unknown (the trace does not say the shapes): the share is the bound"));
  ASSERT_EQ(ranking.not_ranked.size(), 1u);
  EXPECT_EQ(ranking.not_ranked[0].target, "softmax");
}

TEST(External, OfSeveralFamiliesOfATargetTheLargestCounts) {
  trace::Summary summary;
  summary.families = {family("softmax", 0.1, 0.1), family("softmax_logsoftmax", 0.3, 0.3)};
  for (int order = 0; order < 2; ++order) {
    std::vector<TargetFacts> targets = {fact("softmax", "starter-ready")};
    add_family_shares(summary, targets);
    EXPECT_EQ(targets[0].share, 0.3) << order;
    std::swap(summary.families[0], summary.families[1]);
  }
}

TEST(External, WithoutATimelineTheShareIsOfTheKernelsTimeAndSaysSo) {
  trace::Summary summary;
  summary.families = {family("norm", 0.4, {})};
  std::vector<TargetFacts> targets = {fact("rmsnorm", "starter-ready")};
  add_family_shares(summary, targets);
  EXPECT_EQ(targets[0].share, 0.4);
  EXPECT_EQ(targets[0].share_from, "norm kernels, of kernel time");
}

TEST(External, ASeamsOwnRangesKnowBetterThanItsFamily) {
  trace::Summary summary;
  summary.steps = 2;
  summary.families = {family("norm", 0.4, 0.4)};
  summary.seams = {{.seam = "rmsnorm", .calls = {}, .kernel_sum_ns = 80, .kernel_union_ns = 80, .share = 0.1, .rule = "range", .confidence = 1}};
  std::vector<TargetFacts> targets = {fact("rmsnorm", "starter-ready"), fact("layernorm", "starter-ready")};
  add_family_shares(summary, targets);
  EXPECT_EQ(targets[0].share, 0.1);
  EXPECT_EQ(targets[0].share_from, "range");
  EXPECT_EQ(targets[0].measured_ns, 40);
  EXPECT_EQ(targets[1].share, 0.4);
}

TEST(External, WhatTheStepDoesNotRunGetsNoShare) {
  trace::Summary summary;
  summary.families = {family("norm", 0.4, 0.4)};
  std::vector<TargetFacts> targets = {fact("rmsnorm", "starter-ready")};
  targets[0].not_on_path = "shadowed";
  add_family_shares(summary, targets);
  EXPECT_FALSE(targets[0].share);
  EXPECT_EQ(targets[0].not_on_path, "shadowed");
}

TEST(External, TimeOutsideKernelsIsCreditedToTheTargetThatCouldSaveIt) {
  trace::Summary summary;
  summary.families = {family("elementwise", 0.1, 0.1), family("matmul", 0.3, 0.3)};
  summary.opportunities = {{.name = "launch_fusion", .gain_ns = 25, .share = 0.25, .runs = 1, .kernels = 5, .kernel_ns = 10, .reason = "short kernels"},
                           {.name = "whole_step_capture", .gain_ns = 40, .share = 0.4, .reason = "launching"},
                           {.name = "data_movement", .gain_ns = 10, .share = 0.1, .reason = "copies while no kernel ran"}};
  std::vector<TargetFacts> targets = {fact("launch_fusion", "starter-ready"), fact("matmul_epilogue", "starter-ready"), fact("data_movement", "starter-ready")};
  add_credits(summary, targets);
  add_family_shares(summary, targets);
  const Ranking ranking = rank_targets(targets, {});
  ASSERT_EQ(ranking.candidates.size(), 3u);
  EXPECT_EQ(ranking.candidates[0].target, "launch_fusion");
  EXPECT_DOUBLE_EQ(ranking.candidates[0].share, 0.1);
  EXPECT_DOUBLE_EQ(ranking.candidates[0].credited_share, 0.25);
  EXPECT_DOUBLE_EQ(ranking.candidates[0].gain_bound, 0.35);
  EXPECT_THAT(ranking.candidates[0].rationale, HasSubstr("25.00 % credited (short kernels)"));
  EXPECT_EQ(ranking.candidates[2].target, "data_movement");  // no kernel of its family: nothing but the credit
  EXPECT_EQ(ranking.candidates[2].share, 0);
  EXPECT_EQ(ranking.candidates[2].share_from, "timing");
  EXPECT_DOUBLE_EQ(ranking.candidates[2].gain_bound, 0.1);
  EXPECT_FALSE(targets[2].share);  // nothing is filed of it
}

TEST(External, AStepThatRunsItAnotherWayGetsNoCredit) {
  trace::Summary summary;
  summary.opportunities = {{.name = "launch_fusion", .gain_ns = 25, .share = 0.25, .reason = "short kernels"}};
  std::vector<TargetFacts> targets = {fact("launch_fusion", "starter-ready")};
  targets[0].not_on_path = "shadowed";
  add_credits(summary, targets);
  EXPECT_EQ(targets[0].credited_share, 0);
}

struct Confidence {
  const char* name;
  double unknown_share;
  int64_t steps;
  bool timeline;
  double confidence;
  const char* because;
};

TEST(External, AReviewBelievesATraceOfFamiliesAsFarAsItCanSay) {
  for (const Confidence& row : {Confidence{"all known", 0, 5, true, 0.75, "families of kernels"},
                                Confidence{"half unknown", 0.5, 5, true, 0.5, "50.0 % of the kernels' time is known"},
                                Confidence{"one step", 0, 1, true, 0.2, "1 step, 5 are enough"},
                                Confidence{"no steps", 0, 0, true, 0.5, "no steps are marked"},
                                Confidence{"sums", 0, 0, false, 0.4, "without a timeline"}}) {
    auto profile = new_record<TraceProfileRecord>();
    profile.status = Status::ok;
    profile.preset = "external:run";
    profile.attributed_by = "families";
    profile.summary.covered_share = 0.3;  // idle time is no failure to attribute
    profile.summary.unknown_share = row.unknown_share;
    profile.summary.steps = row.steps;
    if (row.timeline) profile.summary.devices.push_back({});
    profile.candidates.push_back({.target = "rmsnorm", .gain_bound = 0.03});
    const AutoReviewRecord record = auto_review(profile);
    EXPECT_DOUBLE_EQ(record.confidence, row.confidence) << row.name;
    EXPECT_THAT(record.confidence_reason, HasSubstr(row.because)) << row.name;
    EXPECT_EQ(record.relevance.at("rmsnorm"), "medium");
  }
}

}  // namespace
}  // namespace kl
