// A suite of real A/Bs with the fake trainer.
#include "fake_setup.hpp"

#include <lab/integration/integration_suite.hpp>

namespace kl {
namespace {

class IntegrationSuiteTest : public FakeSetup {
 protected:
  // The candidate's step takes this share of the baseline's on the preset.
  IntegrationRecord ab(const std::string& preset, double ratio) {
    baseline()["step_ns"] = 1e8;
    candidate()["step_ns"] = ratio * 1e8;
    auto wanted = request();
    wanted.preset = preset;
    return integration_ab(wanted);
  }
};

TEST_F(IntegrationSuiteTest, faster_on_both_presets_is_validated_and_holds_both_records) {
  const SuiteRecord suite = suite_of({ab("tiny", 0.95), ab("balanced", 0.97)});
  EXPECT_EQ(suite.status, Status::validated) << suite.explanation;
  ASSERT_EQ(suite.rows.size(), 2u);
  EXPECT_EQ(suite.rows[1].preset, "balanced");
  EXPECT_NEAR(*suite.rows[1].speed_up, 1 / 0.97 - 1, 0.01);
  EXPECT_EQ(suite.preset, "");
  EXPECT_EQ(suite.identity.kernel, sha256_hex(kCandidate));
  const auto again = from_json<SuiteRecord>(to_json(suite));
  ASSERT_TRUE(again.ok()) << again.error().what;
  EXPECT_EQ(again->records[1].pairs.size(), suite.records[1].pairs.size());
}

TEST_F(IntegrationSuiteTest, faster_here_and_slower_there_is_mixed) {
  const SuiteRecord suite = suite_of({ab("tiny", 0.95), ab("balanced", 1.05)});
  EXPECT_EQ(suite.status, Status::mixed) << suite.explanation;
  EXPECT_EQ(suite.reason, "presets-disagree");
}

TEST_F(IntegrationSuiteTest, a_preset_whose_baseline_does_not_run_is_a_row_and_no_failure_of_the_other) {
  const auto fits = ab("tiny", 0.95);
  baseline()["die_at"] = 1;
  const SuiteRecord suite = suite_of({fits, ab("balanced", 0.95)});
  EXPECT_EQ(suite.status, Status::validated) << suite.explanation;
  EXPECT_FALSE(suite.rows[1].counts);
  EXPECT_EQ(suite.rows[1].reason, "aborted") << suite.rows[1].explanation;
}

TEST_F(IntegrationSuiteTest, a_candidate_that_crashes_on_one_preset_is_not_excused) {
  const auto fits = ab("tiny", 0.95);
  candidate()["die_at"] = 1;
  const SuiteRecord suite = suite_of({fits, ab("balanced", 0.95)});
  EXPECT_EQ(suite.status, Status::inconclusive) << suite.explanation;
  EXPECT_TRUE(suite.rows[1].counts);
}

TEST_F(IntegrationSuiteTest, a_preset_without_the_seam_is_a_row) {
  const auto has_it = ab("tiny", 0.95);
  script["seam"] = "another";
  const SuiteRecord suite = suite_of({has_it, ab("balanced", 0.95)});
  EXPECT_EQ(suite.status, Status::validated) << suite.explanation;
  EXPECT_EQ(suite.rows[1].status, Status::needs_integration_adapter);
}

}  // namespace
}  // namespace kl
