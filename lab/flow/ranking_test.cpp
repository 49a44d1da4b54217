#include <lab/flow/ranking.hpp>
#include <lab/flow/relevance.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TargetFacts facts(const std::string& target, double share, std::optional<double> measured = {},
                  std::optional<double> floor = {}) {
  return {.target = target, .seam = target, .category = "norm", .starter = "starter-ready", .share = share,
          .share_from = "ranges", .measured_ns = measured, .floor_ns = floor,
          .floor_unknown = floor ? "" : "no shapes", .credited_for = "", .not_on_path = ""};
}

std::vector<std::string> order(const Ranking& ranking) {
  std::vector<std::string> names;
  for (const auto& candidate : ranking.candidates) names.push_back(candidate.target);
  return names;
}

TEST(Ranking, TheBoundIsShareTimesWhatIsAboveTheFloor) {
  const auto ranking = rank_targets({facts("a", 0.2, 200, 150), facts("b", 0.1, 100, 20), facts("c", 0.04)}, {});
  EXPECT_THAT(order(ranking), ElementsAre("b", "a", "c"));
  EXPECT_DOUBLE_EQ(ranking.candidates[0].gain_bound, 0.08);
  EXPECT_DOUBLE_EQ(ranking.candidates[1].gain_bound, 0.05);
  EXPECT_DOUBLE_EQ(ranking.candidates[2].gain_bound, 0.04);
  EXPECT_EQ(ranking.candidates[2].rank, 3);
  EXPECT_THAT(ranking.candidates[2].rationale, HasSubstr("floor unknown (no shapes)"));
}

TEST(Ranking, AFloorAboveTheMeasurementLeavesNothingToGain) {
  EXPECT_EQ(rank_targets({facts("a", 0.2, 100, 130)}, {}).candidates[0].gain_bound, 0);
}

TEST(Ranking, AShareOfAQuarterIsNeverCalledLowBecauseItRanksThird) {
  const auto ranking = rank_targets({facts("a", 0.3), facts("b", 0.28), facts("c", 0.25)}, {});
  EXPECT_EQ(ranking.candidates[2].target, "c");
  EXPECT_EQ(ranking.candidates[2].relevance, "high");
}

TEST(Ranking, EvidenceMovesTheScoreAndSaysSo) {
  std::map<std::string, Assessment> standing;
  standing["a"].state = "integration-regressed";
  standing["c"].diagnosis = "bandwidth-bound";
  standing["c"].diagnosis_confidence = 0.8;
  standing["d"].relevance = "low";
  standing["d"].relevance_by = "a person";
  standing["e"].diagnosis = "mixed";
  standing["e"].diagnosis_weak = true;
  const auto ranking = rank_targets({facts("a", 0.3), facts("b", 0.1), facts("c", 0.09), facts("d", 0.12), facts("e", 0.05)}, standing);
  EXPECT_THAT(order(ranking), ElementsAre("c", "b", "d", "a", "e"));
  EXPECT_DOUBLE_EQ(ranking.candidates[4].score, 0.025);
  EXPECT_THAT(ranking.candidates[4].moved_by, ElementsAre(HasSubstr("a weak diagnosis waits for a person: mixed")));
  EXPECT_DOUBLE_EQ(ranking.candidates[3].gain_bound, 0.3);  // what was measured stays as it is
  EXPECT_THAT(ranking.candidates[3].moved_by, ElementsAre(HasSubstr("slower")));
  EXPECT_THAT(ranking.candidates[2].moved_by, ElementsAre(HasSubstr("a person judged it low")));
  EXPECT_THAT(ranking.candidates[1].moved_by, IsEmpty());
}

TEST(Ranking, WhatTheStepDoesNotRunIsNamedAndNotRanked) {
  auto off = facts("a", 0.3);
  off.not_on_path = "shadowed";
  auto unknown = facts("b", 0.3);
  unknown.share.reset();
  const auto ranking = rank_targets({off, unknown}, {});
  EXPECT_THAT(ranking.candidates, IsEmpty());
  ASSERT_EQ(ranking.not_ranked.size(), 2u);
  EXPECT_EQ(ranking.not_ranked[0].why, "shadowed");
  EXPECT_THAT(ranking.not_ranked[1].why, HasSubstr("share"));
}

TEST(Relevance, FollowsTheBoundsOfTheContract) {
  EXPECT_EQ(relevance_of(0.05), Relevance::high);
  EXPECT_EQ(relevance_of(0.0499), Relevance::medium);
  EXPECT_EQ(relevance_of(0.02), Relevance::medium);
  EXPECT_EQ(relevance_of(0.0199), Relevance::low);
  EXPECT_EQ(relevance_of(0.005), Relevance::low);
  EXPECT_EQ(relevance_of(0.0049), Relevance::none);
  for (const auto& name : relevance_names()) EXPECT_EQ(to_string(*relevance_from_string(name)), name);
  EXPECT_FALSE(relevance_from_string("great"));
}

TEST(Diagnosis, IsStrongFromSixtyFiveAndWeakBelowFifty) {
  EXPECT_TRUE(is_strong("compute-bound", 0.65));
  EXPECT_FALSE(is_strong("compute-bound", 0.649));
  EXPECT_FALSE(is_strong("mixed", 0.9));
  EXPECT_TRUE(is_weak("mixed", 0.9));
  EXPECT_TRUE(is_weak("latency-bound", 0.499));
  EXPECT_FALSE(is_weak("latency-bound", 0.5));
}

TEST(Ranking, WithoutTimesTheNewestTraceProfileSaysWhatOfTheShareCanBeGained) {
  TargetFacts facts{.target = "a", .share = 0.2, .share_from = "trace-profile", .gain_of_share = 0.25};
  const RankedCandidate candidate = rank_targets({facts}, {}).candidates.front();
  EXPECT_DOUBLE_EQ(candidate.gain_bound, 0.05);
  EXPECT_NE(candidate.rationale.find("at most 5.00 %"), std::string::npos) << candidate.rationale;
}

}  // namespace
}  // namespace kl
