#include <lab/flow/review.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

TraceProfileRecord profile(double covered, int64_t steps) {
  auto record = new_record<TraceProfileRecord>();
  record.status = Status::ok;
  record.summary.covered_share = covered;
  record.summary.steps = steps;
  for (const auto& [target, bound] : {std::pair{"a", 0.05}, {"b", 0.0499}, {"c", 0.005}, {"d", 0.0049}})
    record.candidates.push_back({.target = target, .gain_bound = bound});
  return record;
}

TEST(AutoReview, RelevanceFollowsTheBoundNotTheRank) {
  const auto relevance = auto_review(profile(1, 10)).relevance;
  EXPECT_EQ(relevance, (std::map<std::string, std::string>{{"a", "high"}, {"b", "medium"}, {"c", "low"}, {"d", "none"}}));
}

TEST(AutoReview, ConfidenceIsWhatWasAttributedUnlessStepsAreFew) {
  EXPECT_DOUBLE_EQ(auto_review(profile(0.8, 10)).confidence, 0.8);
  EXPECT_DOUBLE_EQ(auto_review(profile(0.8, 2)).confidence, 0.4);
}

TEST(AutoReview, AProfileWithoutCandidatesIsNoJudgement) {
  auto empty = profile(1, 10);
  empty.candidates.clear();
  EXPECT_EQ(auto_review(empty).status, Status::insufficient_trace_data);
  auto failed = profile(1, 10);
  failed.status = Status::capture_unavailable;
  failed.reason = "no tool";
  EXPECT_EQ(auto_review(failed).status, Status::insufficient_trace_data);
  EXPECT_EQ(auto_review(failed).reason, "no tool");
}

}  // namespace
}  // namespace kl
