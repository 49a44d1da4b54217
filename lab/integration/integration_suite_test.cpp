#include <lab/integration/integration_suite.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

SuiteRow row(Status status, double low, bool counts = true, const char* reason = "") {
  SuiteRow made;
  made.preset = std::string(to_string(status));
  made.status = status;
  made.reason = reason;
  made.counts = counts;
  made.speed_up_low = low;
  made.non_inferior = low > kNonInferior;
  return made;
}
const SuiteRow faster = row(Status::validated, 0.02), slower = row(Status::regressed, -0.05), same = row(Status::equivalent, -0.003),
               widely_same = row(Status::equivalent, -0.012), mixed = row(Status::mixed, 0.01),
               unsure_above = row(Status::inconclusive, -0.004), unsure = row(Status::inconclusive, -0.02),
               wrong = row(Status::regressed, -0.05, true, "l1-failed"), no_seam = row(Status::needs_integration_adapter, -1, false),
               no_room = row(Status::inconclusive, -1, false, "aborted");

struct Case {
  std::vector<SuiteRow> rows;
  Status status;
  const char* reason;
};

TEST(SuiteVerdict, IsTheFirstThatApplies) {
  const Case cases[] = {
      {{faster}, Status::validated, ""},
      {{faster, faster}, Status::validated, ""},
      {{faster, same}, Status::validated, ""},
      {{faster, unsure_above}, Status::validated, ""},
      {{faster, widely_same}, Status::inconclusive, "not-non-inferior"},
      {{faster, unsure}, Status::inconclusive, "not-non-inferior"},
      {{same, faster}, Status::inconclusive, "primary-undecided"},
      {{faster, slower}, Status::mixed, "presets-disagree"},
      {{slower, faster}, Status::mixed, "presets-disagree"},
      {{slower, same}, Status::regressed, "slower"},
      {{unsure, slower}, Status::regressed, "slower"},
      {{faster, wrong}, Status::regressed, "gate-failed"},
      {{faster, mixed}, Status::mixed, "preset-mixed"},
      {{same, same}, Status::equivalent, ""},
      {{same, unsure}, Status::inconclusive, "primary-undecided"},
      {{faster, no_seam}, Status::validated, ""},
      {{faster, no_room}, Status::validated, ""},
      {{no_room, faster}, Status::inconclusive, "primary-undecided"},
      {{faster, row(Status::build_failed, -1)}, Status::build_failed, ""},
      {{no_seam, no_seam}, Status::needs_integration_adapter, ""},
  };
  for (const Case& c : cases) {
    std::string what;
    for (const SuiteRow& r : c.rows) what += r.preset + " ";
    const SuiteVerdict verdict = suite_verdict(c.rows);
    EXPECT_EQ(verdict.status, c.status) << what << verdict.explanation;
    EXPECT_EQ(verdict.reason, c.reason) << what;
  }
}

}  // namespace
}  // namespace kl
