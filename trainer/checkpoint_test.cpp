#include <trainer/checkpoint.hpp>
#include <trainer/run.hpp>
#include <trainer/test_corpus.hpp>
#include <trainer/test_libraries.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl::trainer {
namespace {

using testing::HasSubstr;

class CheckpointTest : public testing::Test {
 protected:
  std::unique_ptr<Session> open(const Config& config) const {
    auto dataset = open_dataset(config, {});
    EXPECT_TRUE(dataset.ok()) << dataset.error().what;
    auto session = Session::open(config, std::move(*dataset), test_champions(config));
    EXPECT_TRUE(session.ok()) << session.error().what;
    return std::move(*session);
  }
  // Losses of a run of 12 steps; a stop after `stop_after` steps if that is not 0.
  Result<RunSummary> run(Session& session, std::vector<double>& losses,
                         int64_t stop_after = 0) const {
    RunOptions options;
    options.steps = 12;
    options.skip_eval = true;
    options.checkpoint = file().string();
    options.on_step = [&](const StepResult& step, double) { losses.push_back(step.loss); };
    options.stop = [&] { return stop_after > 0 && session.steps_done() == stop_after; };
    return run_training(session, options, EventStream());
  }
  fs::path file() const { return corpus_.folder() / "run.safetensors"; }
  TestCorpus corpus_;
};

TEST_F(CheckpointTest, AResumedRunGivesTheBitsOfTheUninterruptedOne) {
  std::vector<double> whole, parts;
  ASSERT_TRUE(run(*open(corpus_.config()), whole).ok());
  ASSERT_EQ(whole.size(), 12u);

  auto first = open(corpus_.config());
  auto summary = run(*first, parts, 5);
  ASSERT_TRUE(summary.ok());
  EXPECT_TRUE(summary->stopped);
  const auto facts = read_checkpoint_facts(file());
  ASSERT_TRUE(facts.ok()) << facts.error().what;
  EXPECT_EQ(facts->position.step, 5);
  EXPECT_EQ(facts->position.steps, 12);

  auto second = open(facts->config);
  const auto resumed = resume(*second, *facts, file());
  ASSERT_TRUE(resumed.ok()) << resumed.error().what;
  ASSERT_TRUE(run(*second, parts).ok());
  EXPECT_EQ(parts, whole);
}

TEST_F(CheckpointTest, ACheckpointOfAnotherShapeIsNamed) {
  std::vector<double> losses;
  ASSERT_TRUE(run(*open(corpus_.config()), losses).ok());
  const auto facts = read_checkpoint_facts(file());
  ASSERT_TRUE(facts.ok());
  Config wider = facts->config;
  wider.width = 64;
  const auto outcome = resume(*open(wider), *facts, file());
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().what, HasSubstr("wte"));
}

TEST_F(CheckpointTest, ATornFileIsRefusedAtEveryLength) {
  std::vector<double> losses;
  ASSERT_TRUE(run(*open(corpus_.config()), losses).ok());
  const std::string whole = *read_file(file());
  auto session = open(corpus_.config());
  const auto facts = *read_checkpoint_facts(file());
  for (const size_t length :
       {size_t{0}, size_t{7}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    ASSERT_TRUE(write_file_atomic(file(), whole.substr(0, length)).ok());
    EXPECT_FALSE(resume(*session, facts, file()).ok()) << length;
    if (length < 1000) {
      EXPECT_FALSE(read_checkpoint_facts(file()).ok()) << length;
    }
  }
}

TEST_F(CheckpointTest, WeightsAloneAreNoCheckpoint) {
  auto session = open(corpus_.config());
  auto weights = session->stepper().weights();
  ASSERT_TRUE(write_safetensors(file(), named_tensors(session->layout(), *weights)).ok());
  const auto facts = read_checkpoint_facts(file());
  ASSERT_FALSE(facts.ok());
  EXPECT_THAT(facts.error().what, HasSubstr("is no checkpoint"));
  EXPECT_THAT(facts.error().remedy, HasSubstr("--checkpoint"));
}

TEST_F(CheckpointTest, OtherDataIsNamed) {
  std::vector<double> losses;
  ASSERT_TRUE(run(*open(corpus_.config()), losses).ok());
  auto facts = *read_checkpoint_facts(file());
  facts.corpus_hash = "0123456789abcdef";
  const auto outcome = resume(*open(corpus_.config()), facts, file());
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().what, HasSubstr("other data"));
}

TEST_F(CheckpointTest, AFullDiskWarnsWhileTheRunGoesOnAndFailsAtItsEnd) {
  auto session = open(corpus_.config());
  RunOptions options;
  options.steps = 6;
  options.skip_eval = true;
  options.checkpoint = "/dev/full/run.safetensors";
  options.checkpoint_every = 2;
  int warnings = 0;
  options.on_warning = [&](const Error& error) {
    ++warnings;
    EXPECT_THAT(error.what, HasSubstr("/dev/full"));
  };
  const auto summary = run_training(*session, options, EventStream());
  EXPECT_EQ(warnings, 3);
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(session->steps_done(), 6);
}

}  // namespace
}  // namespace kl::trainer
