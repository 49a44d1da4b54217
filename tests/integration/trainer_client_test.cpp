#include "fake_setup.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>

namespace kl {
namespace {

using testing::HasSubstr;

class TrainerClientTest : public FakeSetup {
 protected:
  TrainerPlan plan() {
    TrainerPlan plan;
    plan.preset = "tiny";
    plan.warmup_steps = 2;
    plan.steps = 5;
    plan.libraries["seam"] = {"/nowhere/library.so", sha256_hex(kCandidate), "hash"};
    return plan;
  }
};

TEST_F(TrainerClientTest, presets_and_seams_are_read) {
  const auto presets = client().presets();
  ASSERT_TRUE(presets.ok()) << presets.error().what;
  ASSERT_EQ(presets->size(), 2u);
  EXPECT_EQ(presets->at(1).name, "balanced");
  const auto seams = client().seams("tiny");
  ASSERT_TRUE(seams.ok()) << seams.error().what;
  EXPECT_EQ(seams->front().calls_per_step(), (SeamCalls{{"forward", 3}, {"backward", 3}}));
}

TEST(NextStronger, is_the_next_larger_of_the_family_that_runs_on_the_engine) {
  const auto preset = [](const char* name, const char* family, double strength, std::optional<std::string> device) {
    TrainerPreset made;
    made.name = name, made.family = family, made.strength = strength, made.device = std::move(device);
    return made;
  };
  const std::vector<TrainerPreset> all = {preset("strong", "a", 3, {}), preset("gpu", "a", 2, "cuda"),
                                          preset("other", "b", 2, {}), preset("weak", "a", 1, "cpu")};
  EXPECT_EQ(next_stronger(all, all[3], "cpu")->name, "strong");
  EXPECT_EQ(next_stronger(all, all[3], "cuda")->name, "gpu");
  EXPECT_FALSE(next_stronger(all, all[0], "cpu"));
}

TEST_F(TrainerClientTest, an_unknown_preset_gets_a_near_match) {
  const auto preset = client().preset("tinny");
  ASSERT_FALSE(preset.ok());
  EXPECT_EQ(preset.error().status, Status::usage);
  EXPECT_THAT(preset.error().remedy, HasSubstr("tiny"));
}

TEST_F(TrainerClientTest, a_program_that_is_not_there_is_a_missing_tool) {
  const auto presets = TrainerClient("/nowhere/trainer").presets();
  ASSERT_FALSE(presets.ok());
  EXPECT_EQ(presets.error().status, Status::missing_tool);
}

TEST_F(TrainerClientTest, a_program_that_speaks_something_else_is_named) {
  script["answer"] = "{\"protocol\": 7}";
  const auto presets = client().presets();
  ASSERT_FALSE(presets.ok());
  EXPECT_THAT(presets.error().what, HasSubstr("does not speak version 1"));
}

TEST_F(TrainerClientTest, a_run_is_complete_with_all_its_steps) {
  const auto run = client().run(plan(), 30);
  ASSERT_TRUE(run.ok()) << run.error().what;
  EXPECT_TRUE(run->complete()) << run->why_incomplete();
  EXPECT_EQ(run->steps.size(), 7u);
  EXPECT_EQ(run->seam_calls.at("seam").at("backward"), 21);
}

TEST_F(TrainerClientTest, garbage_between_events_costs_only_itself) {
  candidate()["garbage_at"] = 3;
  const auto run = client().run(plan(), 30);
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->complete()) << run->why_incomplete();
  EXPECT_EQ(run->steps.size(), 7u);
  EXPECT_EQ(run->unreadable_lines, 2);
}

TEST_F(TrainerClientTest, a_crash_names_its_signal_and_its_step) {
  candidate()["die_at"] = 4;
  const auto run = client().run(plan(), 30);
  ASSERT_TRUE(run.ok());
  EXPECT_FALSE(run->complete());
  EXPECT_THAT(run->why_incomplete(), HasSubstr("signal 6 after 4 steps"));
}

TEST_F(TrainerClientTest, exit_code_0_without_finish_is_not_complete) {
  candidate()["no_finish"] = true;
  const auto run = client().run(plan(), 30);
  ASSERT_TRUE(run.ok());
  EXPECT_FALSE(run->complete());
  EXPECT_THAT(run->why_incomplete(), HasSubstr("without a `finish` event"));
}

TEST_F(TrainerClientTest, a_hang_is_stopped) {
  candidate()["hang_at"] = 1;
  const auto run = client().run(plan(), 0.5);
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->timed_out);
  EXPECT_THAT(run->why_incomplete(), HasSubstr("was stopped"));
}

TEST_F(TrainerClientTest, a_killed_lab_leaves_no_trainer_running) {
  candidate()["hang_at"] = 1;
  const fs::path pid_file = root_.path() / "pid";
  script["pid_file"] = pid_file.string();
  const auto trainer = client();
  const pid_t lab = ::fork();
  if (lab == 0) {
    (void)trainer.run(plan(), 60);
    ::_exit(0);
  }
  for (int i = 0; i < 1000 && !fs::exists(pid_file); ++i) ::usleep(10'000);
  ASSERT_TRUE(fs::exists(pid_file));
  const pid_t pid = std::stoi(*read_file(pid_file));
  ASSERT_EQ(::kill(pid, 0), 0);
  ::kill(lab, SIGKILL);
  ::waitpid(lab, nullptr, 0);
  // Dead, or a zombie that its new parent has not collected yet.
  const auto gone = [&] {
    const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    return !stat.ok() || stat->find(") Z") != std::string::npos;
  };
  for (int i = 0; i < 500 && !gone(); ++i) ::usleep(10'000);
  EXPECT_TRUE(gone());
}

}  // namespace
}  // namespace kl
