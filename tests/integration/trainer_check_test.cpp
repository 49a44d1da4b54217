// Every rule of the protocol that `trainer check` judges: kept by the fake trainer, and broken once.
#include "fake_setup.hpp"

#include <lab/integration/trainer_check.hpp>

#include <gmock/gmock.h>

namespace kl {
namespace {

using testing::HasSubstr;

class TrainerCheckTest : public FakeSetup {
 protected:
  Result<TrainerCheckRecord> check(const std::string& preset = "") {
    catalogue_ = Catalogue::search({root_.path()});
    TrainerCheckRequest request;
    request.engine = *find_engine("cpu");
    request.catalogue = &catalogue_;
    request.program = KL_FAKE_TRAINER;
    request.arguments = {"--script", script_file().string()};
    request.preset = preset;
    request.timeout_seconds = 20;
    request.library_cache = root_.path() / "libraries";
    return check_trainer(request);
  }
  // The check of that name, after which nothing else is wrong.
  void expect(const std::string& name, const std::string& verdict, const std::string& found) {
    const auto record = check();
    ASSERT_TRUE(record.ok()) << record.error().what;
    EXPECT_EQ(record->status, verdict == "wrong" ? Status::rejected : Status::ok) << record->reason;
    bool seen = false;
    for (const ProtocolCheck& check : record->checks) {
      if (check.name != name) {
        EXPECT_NE(check.verdict, "wrong") << check.name << ": " << check.found;
        continue;
      }
      seen = true;
      EXPECT_EQ(check.verdict, verdict) << check.found;
      EXPECT_THAT(check.found, HasSubstr(found));
      EXPECT_EQ(check.costs.empty(), verdict != "absent");
    }
    EXPECT_TRUE(seen) << name;
  }
};

TEST_F(TrainerCheckTest, a_trainer_that_speaks_it_all_is_ok) {
  script["turns"] = true;
  const auto record = check();
  ASSERT_TRUE(record.ok()) << record.error().what;
  EXPECT_EQ(record->status, Status::ok) << record->reason;
  EXPECT_EQ(record->preset, "tiny");
  std::vector<std::string> names;
  for (const ProtocolCheck& check : record->checks) {
    names.push_back(check.name);
    EXPECT_EQ(check.verdict, "ok") << check.name << ": " << check.found;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"presets", "seams", "targets", "run", "memory", "same-seed", "seed", "wrong-library",
                                             "perturb", "snapshots", "replay", "ranges", "turns"}));
}

TEST_F(TrainerCheckTest, what_it_leaves_out_is_absent_and_not_wrong) {
  const auto absent = [&](const char* name, const char* found) { expect(name, "absent", found); };
  absent("turns", "do not take turns");
  script["ranges"] = "refused";
  absent("ranges", "writes no ranges");
  script["ranges"] = "ignored";
  absent("ranges", "no `ranges` events");
  script["perturb"] = "refused";
  absent("perturb", "does not perturb");
  script["perturb"] = "ignored";
  absent("perturb", "stay as they were");
  baseline()["no_memory"] = true;
  absent("memory", "no `memory` event");
  script["replay"] = false;
  absent("snapshots", "step-0.safetensors");
}

TEST_F(TrainerCheckTest, a_step_that_is_lost) { baseline()["lost_step"] = 2, expect("run", "wrong", "5 `step` events for 6 steps"); }
TEST_F(TrainerCheckTest, a_loss_that_is_no_number) { baseline()["nan_at"] = 3, expect("run", "wrong", "not finite"); }
TEST_F(TrainerCheckTest, a_run_that_dies) { baseline()["die_at"] = 1, expect("run", "wrong", "signal"); }
TEST_F(TrainerCheckTest, a_run_that_does_not_finish) { baseline()["no_finish"] = true, expect("run", "wrong", "without a `finish`"); }
TEST_F(TrainerCheckTest, calls_that_are_not_counted) {
  baseline()["extra_backward"] = -3;
  expect("run", "wrong", "15 calls of seam/backward: 6 steps of 3 make 18");
}
TEST_F(TrainerCheckTest, another_library_than_the_plans) {
  baseline()["loaded_hash"] = "another";
  expect("run", "wrong", "another library in seam seam");
}
TEST_F(TrainerCheckTest, a_wrong_library_that_is_run) {
  script["takes_any_library"] = true;
  expect("wrong-library", "wrong", "began all the same");
}
TEST_F(TrainerCheckTest, a_start_that_differs_between_runs) {
  script["loss_jump"] = 0.5;
  const auto record = check();
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->status, Status::rejected);
  EXPECT_THAT(record->reason, HasSubstr("same-seed: two runs of one seed begin with losses"));
}
TEST_F(TrainerCheckTest, a_seed_that_is_not_used) { script["ignores_seed"] = true, expect("seed", "wrong", "seed is not used"); }
TEST_F(TrainerCheckTest, replays_that_answer_nothing) {
  script["replays_nothing"] = true;
  expect("replay", "wrong", "0 `replay` events for 2 files and 2 batches");
}
TEST_F(TrainerCheckTest, gradients_that_differ_between_replays) {
  script["gradient_jump"] = 3.0;
  expect("replay", "wrong", "cosine");
}

TEST_F(TrainerCheckTest, a_program_that_speaks_something_else_needs_an_adapter) {
  script["answer"] = "hello";
  const auto record = check();
  ASSERT_TRUE(record.ok()) << record.error().what;
  EXPECT_EQ(record->status, Status::needs_integration_adapter);
  EXPECT_EQ(record->checks.size(), 1u);
}
TEST_F(TrainerCheckTest, a_seam_of_no_known_target_is_named) {
  fs::remove_all(root_.path() / "fake");
  const auto record = check();
  ASSERT_TRUE(record.ok()) << record.error().what;
  EXPECT_EQ(record->status, Status::rejected);
  EXPECT_THAT(record->reason, HasSubstr("targets: "));
}
TEST_F(TrainerCheckTest, an_unknown_preset_is_a_usage_error) {
  const auto record = check("tinny");
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().status, Status::usage);
}

}  // namespace
}  // namespace kl
