#include <lab/flow/plan.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

struct Row {
  std::string state, answer, level;
};

class PlanLevel : public testing::TestWithParam<Row> {};

Assessment standing(const Row& row) {
  Assessment now;
  now.target = "rmsnorm";
  now.engine = "cpu";
  now.state = row.state;
  now.answer = row.answer;
  return now;
}

PlanRequest request() {
  PlanRequest request;
  request.candidate = {.rank = 2, .target = "rmsnorm", .starter = "starter-ready"};
  request.preset = "smoke";
  request.profile_file = "p.json";
  request.workspace = "ws/rmsnorm";
  return request;
}

std::string next_command(const PlanRecord& plan) {
  for (const PlanStep& step : plan.steps)
    if (step.state == "next") return step.command;
  return "";
}

TEST_P(PlanLevel, FollowsFromTheState) { EXPECT_EQ(make_plan(standing(GetParam()), request()).level, GetParam().level); }

INSTANTIATE_TEST_SUITE_P(
    Table, PlanLevel,
    testing::Values(Row{"promoted", "already-champion", "candidate"}, Row{"stale", "needs-verify", "candidate"},
                    Row{"integration-validated", "ready-to-promote", "integration-validated"},
                    Row{"integration-regressed", "deprioritized", "deprioritized"},
                    Row{"integration-equivalent", "deprioritized", "deprioritized"},
                    Row{"trace-deprioritized", "deprioritized", "deprioritized"},
                    Row{"integration-mixed", "stabilize-integration", "promotion-ready"},
                    Row{"integration-tested", "stabilize-integration", "promotion-ready"},
                    Row{"ready-for-integration-test", "ready-for-integration", "promotion-ready"},
                    Row{"trace-backed", "needs-verify", "trace-backed"}, Row{"verified-only", "needs-capture", "verified-only"},
                    Row{"no-evidence", "needs-capture", "candidate"},
                    Row{"verified-only", "needs-integration-adapter", "needs-integration-adapter"}));

TEST(Plan, EveryStateHasALevel) {
  for (const std::string& state : promotion_state_names()) EXPECT_NE(make_plan(standing({state, "", ""}), request()).level, "") << state;
}

TEST(Plan, AGivenTraceRaisesWhatHasNoneAndAsksForAReview) {
  PlanRequest with_trace = request();
  with_trace.trace_metadata = "t/x.metadata.json";
  with_trace.trace_metadata_ok = true;
  EXPECT_EQ(make_plan(standing({"no-evidence", "needs-capture", ""}), with_trace).level, "trace-backed");
  const PlanRecord plan = make_plan(standing({"verified-only", "needs-capture", ""}), with_trace);
  EXPECT_EQ(plan.level, "promotion-ready");
  EXPECT_EQ(next_command(plan), "kernel-lab trace-profile --metadata t/x.metadata.json");
  bool review = false;
  for (const PlanStep& step : plan.steps) review |= step.command.find(" review-trace ") != std::string::npos;
  EXPECT_TRUE(review);
}

TEST(Plan, ATraceThatNoToolCouldMakeRaisesNothing) {
  PlanRequest missing = request();
  missing.trace_metadata = "t/x.metadata.json";
  const PlanRecord plan = make_plan(standing({"verified-only", "needs-capture", ""}), missing);
  EXPECT_EQ(plan.level, "verified-only");
  EXPECT_EQ(next_command(plan), "kernel-lab capture --preset smoke --output t/x");
}

TEST(Plan, WithoutAStarterThereIsPlanningOnly) {
  PlanRequest planning = request();
  planning.candidate.starter = "no-starter";
  for (const PlanStep& step : make_plan(standing({"trace-backed", "ready-for-workspace-family", ""}), planning).steps)
    EXPECT_EQ(step.command.find("--workspace"), std::string::npos) << step.command;
}

TEST(Plan, AnImportedTraceIsFollowedUpToWhatCanStandInForItsProgram) {
  PlanRequest imported = request();
  imported.preset = "external:run";
  imported.profile_file = "my run.trace-profile.json";
  imported.profile_is_trace = true;
  imported.imported_trace = "my run.json";
  Assessment now = standing({"trace-backed", "ready-for-workspace", ""});
  now.relevance = "high";
  PlanRecord plan = make_plan(now, imported);
  EXPECT_EQ(plan.level, "trace-backed");
  EXPECT_EQ(plan.steps[0].command, "kernel-lab trace-profile --trace 'my run.json' --preset external:run");
  EXPECT_EQ(plan.steps[0].state, "done");
  EXPECT_EQ(next_command(plan), "kernel-lab extract --profile 'my run.trace-profile.json' --rank 2 --workspace ws/rmsnorm");
  for (const PlanStep& step : plan.steps)
    for (const char* verb : {" capture ", " integration-ab ", " promote "}) EXPECT_EQ(step.command.find(verb), std::string::npos) << step.command;

  now = standing({"verified-only", "needs-integration-adapter", ""});
  now.relevance = "high";
  now.heuristic = {{.event_type = "verify", .status = "ok", .counts = true}};
  now.next = {"kernel-lab promotion-check --target rmsnorm --workspace ws/rmsnorm --preset smoke", "stands in"};
  imported.workspace_exists = true;
  plan = make_plan(now, imported);
  EXPECT_EQ(plan.level, "needs-integration-adapter");
  EXPECT_EQ(next_command(plan), now.next.command);
}

TEST(Plan, ADeprioritizedTargetHasOneStepAwayFromIt) {
  Assessment now = standing({"integration-equivalent", "deprioritized", ""});
  now.next = {"kernel-lab list-targets --status", "choose another"};
  const PlanRecord plan = make_plan(now, request());
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].state, "next");
}

}  // namespace
}  // namespace kl
