#include <lab/core/safetensors.hpp>
#include <trainer/run.hpp>
#include <trainer/test_corpus.hpp>
#include <trainer/test_libraries.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace kl::trainer {
namespace {

using testing::HasSubstr;

class RunTest : public testing::Test {
 protected:
  Json plan(const std::string& name) const {
    Json libraries = Json::object();
    for (const auto& [seam, file] : test_champions(corpus_.config())) libraries[seam] = to_json(file);
    return {{"protocol", 1},      {"mode", "run"},         {"preset", "smoke"}, {"overrides", corpus_.small()},
            {"seed", 7},          {"warmup_steps", 2},     {"steps", 4},        {"libraries", libraries},
            {"skip_eval", false}, {"no_checkpoint", true}, {"events", (corpus_.folder() / name).string()}};
  }
  Outcome carry_out(const Json& json) const {
    const fs::path file = corpus_.folder() / "plan.json";
    KL_CHECK(write_file_atomic(file, dump_line(json)));
    return run_plan(file);
  }
  std::vector<Json> events(const std::string& name) const {
    std::vector<Json> result;
    std::istringstream lines(*read_file(corpus_.folder() / name));
    for (std::string line; std::getline(lines, line);) result.push_back(*parse_json(line, name));
    return result;
  }
  static std::vector<Json> only(const std::vector<Json>& all, std::string_view kind) {
    std::vector<Json> result;
    for (const Json& event : all)
      if (event["event"] == kind) result.push_back(event);
    return result;
  }
  TestCorpus corpus_;
};

TEST_F(RunTest, APlanEmitsItsEventsWithExactCounts) {
  const auto outcome = carry_out(plan("a"));
  ASSERT_TRUE(outcome.ok()) << outcome.error().what;
  const auto all = events("a");
  const auto steps = only(all, "step");
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(all.front()["event"], "start");
  EXPECT_EQ(all.back()["event"], "finish");
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(steps[i]["index"], i);
    EXPECT_EQ(steps[i]["warmup"], i < 2);
    EXPECT_EQ(steps[i]["tokens"], 48);
    EXPECT_GT(steps[i]["ns"].get<int64_t>(), 0);
    EXPECT_GT(steps[i]["grad_norm"].get<double>(), 0);
    // 2 layers: two norms each, the embedding's and the last one
    EXPECT_EQ(steps[i]["seams"]["rmsnorm"]["calls"]["forward"], 6);
    EXPECT_EQ(steps[i]["seams"]["rmsnorm"]["calls"]["backward"], 6);
    EXPECT_EQ(steps[i]["seams"]["activation_pointwise"]["calls"]["forward"], 2);
    EXPECT_EQ(steps[i]["seams"]["loss_prelude"]["calls"]["backward"], 1);
  }
  EXPECT_EQ(all.back()["steps"], 6);
  EXPECT_EQ(all.back()["seam_calls"]["rmsnorm"]["calls"]["forward"], 36);
  EXPECT_EQ(all.back()["seam_calls"]["loss_prelude"]["calls"]["backward"], 6);
  const auto evals = only(all, "eval");
  ASSERT_EQ(evals.size(), 1u);
  EXPECT_GT(evals[0]["val_bpb"].get<double>(), 0);
  EXPECT_GT(evals[0]["unigram_bpb"].get<double>(), 0);
  EXPECT_GT(only(all, "memory")[0]["peak_bytes"].get<int64_t>(), 1 << 20);
  EXPECT_THAT(all.front()["fingerprint"]["libraries"].get<std::string>(), HasSubstr("openmp"));
  EXPECT_EQ(all.front()["libraries"]["rmsnorm"]["library_hash"],
            plan("a")["libraries"]["rmsnorm"]["library_hash"]);
}

TEST_F(RunTest, ThePlannedStepsSayWhatTheyDidAndTheOthersNothing) {
  Json json = plan("a"), plain = plan("b");
  json["ranges"] = {{"first", 1}, {"steps", 2}, {"every", 2}};
  for (const Json& run : {json, plain}) {
    const auto outcome = carry_out(run);
    ASSERT_TRUE(outcome.ok()) << outcome.error().what;
  }
  const auto all = events("a");
  const auto steps = only(all, "step"), ranges = only(all, "ranges");
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_TRUE(only(events("b"), "ranges").empty());
  EXPECT_EQ(ranges[0]["step"], 3);  // after two of warm-up and one timed
  EXPECT_EQ(ranges[1]["step"], 5);
  for (const Json& event : ranges) {
    const auto& step = steps[event["step"].get<size_t>()];
    std::map<std::string, int> count;
    int64_t end = 0;
    const int64_t whole = event["end_ns"].get<int64_t>() - event["begin_ns"].get<int64_t>();
    EXPECT_GE(whole, step["ns"].get<int64_t>());
    for (const Json& range : event["ranges"]) {
      ++count[event["names"][range[0].get<size_t>()].get<std::string>()];
      EXPECT_GE(range[1].get<int64_t>(), end) << "ranges overlap";
      end = range[1].get<int64_t>() + range[2].get<int64_t>();
    }
    EXPECT_LE(end, whole);
    EXPECT_EQ(event["dropped"], 0);
    for (const auto& [seam, counts] : step["seams"].items())
      for (const auto& [operation, calls] : counts["calls"].items()) EXPECT_EQ(count[seam + "/" + operation], calls) << seam;
    EXPECT_EQ(count["trainer/data"], 1);
    EXPECT_EQ(count["trainer/embedding"], 2);
    int matmuls = 0;
    for (const auto& [name, calls] : count) matmuls += name.starts_with("matmul/") ? calls : 0;
    EXPECT_EQ(matmuls, 3 * (2 * (4 + 2) + 1));  // q, k, v, o, fc, proj of 2 layers and the head; backward twice as many
  }
}

TEST_F(RunTest, RangesOfStepsThatThereAreNotAreRefused) {
  for (const Json& ranges : {Json{{"first", 3}, {"steps", 2}}, Json{{"first", -1}, {"steps", 1}}, Json{{"first", 0}, {"steps", 0}},
                             Json{{"first", 0}, {"steps", 3}, {"every", 2}}, Json{{"first", 0}, {"steps", 1}, {"every", 0}}}) {
    Json json = plan("a");
    json["ranges"] = ranges;
    const auto outcome = carry_out(json);
    ASSERT_FALSE(outcome.ok()) << ranges;
    EXPECT_THAT(outcome.error().what, HasSubstr("are not among 4"));
  }
}

TEST_F(RunTest, TheSameSeedGivesTheSameLossesAndAnotherSeedOthers) {
  Json first = plan("a"), second = plan("b"), other = plan("c");
  other["seed"] = 8;
  for (Json* json : {&first, &second, &other}) (*json)["overrides"]["threads"] = 2;
  for (const Json& json : {first, second, other}) ASSERT_TRUE(carry_out(json).ok());
  const auto a = only(events("a"), "step"), b = only(events("b"), "step"), c = only(events("c"), "step");
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(a[i]["loss"], b[i]["loss"]) << i;
    EXPECT_EQ(a[i]["grad_norm"], b[i]["grad_norm"]) << i;
  }
  EXPECT_NE(a[0]["loss"], c[0]["loss"]);
}

TEST_F(RunTest, TrainingLowersTheLoss) {
  Json json = plan("a");
  json["steps"] = 150;
  ASSERT_TRUE(carry_out(json).ok());
  const auto steps = only(events("a"), "step");
  EXPECT_LT(steps.back()["loss"].get<double>(), steps.front()["loss"].get<double>() - 2);
}

TEST_F(RunTest, ReplayOfASnapshotGivesTheRunsLoss) {
  Json run = plan("a");
  run["snapshots"] = {{"folder", (corpus_.folder() / "kept").string()}, {"steps", {0, 3}}};
  ASSERT_TRUE(carry_out(run).ok());
  Json replay = plan("r");
  const std::string kept = (corpus_.folder() / "kept").string(), out = (corpus_.folder() / "grad").string();
  replay["mode"] = "replay";
  replay["replay"] = {{"weights", {kept + "/step-0.safetensors", kept + "/step-3.safetensors"}},
                      {"batches", {3, 0}},
                      {"gradients", out}};
  const auto outcome = carry_out(replay);
  ASSERT_TRUE(outcome.ok()) << outcome.error().what;
  const auto steps = only(events("a"), "step"), replays = only(events("r"), "replay");
  ASSERT_EQ(replays.size(), 4u);
  EXPECT_EQ(replays[1]["batch"], 0);
  EXPECT_EQ(replays[1]["loss"], steps[0]["loss"]);  // step 0's weights on step 0's tokens
  EXPECT_EQ(replays[2]["loss"], steps[3]["loss"]);  // step 3's weights on step 3's tokens
  EXPECT_NEAR(replays[1]["grad_norm"].get<double>(), steps[0]["grad_norm"].get<double>(), 1e-5);
  const auto gradient = read_file(fs::path(out) / "0-0.f32");
  ASSERT_TRUE(gradient.ok());
  EXPECT_EQ(gradient->size(), only(events("r"), "start")[0]["parameters"].get<size_t>() * 4);
  EXPECT_EQ(events("r").back()["event"], "finish");
}

TEST_F(RunTest, ARunawayLossStopsWithAnErrorEvent) {
  Json json = plan("a");
  json["overrides"]["lr_head"] = 1e30;
  json["overrides"]["softcap"] = 1e6;
  const auto outcome = carry_out(json);
  ASSERT_FALSE(outcome.ok());
  const auto all = events("a");
  EXPECT_EQ(all.back()["event"], "error");
  EXPECT_THAT(all.back()["what"].get<std::string>(), HasSubstr("at step"));
  EXPECT_FALSE(all.back()["remedy"].get<std::string>().empty());
  EXPECT_TRUE(only(all, "finish").empty());
}

TEST_F(RunTest, AFullDiskUnderTheEventsStopsTheRun) {
  Json json = plan("a");
  json["events"] = "/dev/full";
  const auto outcome = carry_out(json);
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().what, HasSubstr("/dev/full"));
}

TEST_F(RunTest, APerturbedRunLeavesTheUnperturbedOneSlowly) {
  Json plain = plan("a"), moved = plan("b");
  moved["perturb"] = {{"seam", "activation_pointwise"}, {"seed", 1}};
  for (Json* json : {&plain, &moved}) {
    (*json)["warmup_steps"] = 0;
    (*json)["steps"] = 30;
    ASSERT_TRUE(carry_out(*json).ok());
  }
  const auto a = only(events("a"), "step"), b = only(events("b"), "step");
  EXPECT_EQ(a[0]["loss"], b[0]["loss"]);  // the output projections still are 0
  double largest = 0;
  for (size_t i = 0; i < 30; ++i)
    largest = std::max(largest, std::fabs(a[i]["loss"].get<double>() - b[i]["loss"].get<double>()));
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 0.05);
}

TEST_F(RunTest, ABadPlanSaysWhatIsWrong) {
  Json version = plan("a"), preset = plan("a"), field = plan("a");
  version["protocol"] = 2;
  preset["preset"] = "smoke-x";
  field["overrides"]["widht"] = 32;
  EXPECT_THAT(carry_out(version).error().what, HasSubstr("protocol is 2"));
  EXPECT_THAT(carry_out(preset).error().remedy, HasSubstr("smoke"));
  EXPECT_THAT(carry_out(field).error().remedy, HasSubstr("width"));
}

TEST_F(RunTest, SafetensorsRoundTripAndNameAMisfit) {
  const Config config = corpus_.config();
  const Layout layout(config);
  std::vector<float> weights(static_cast<size_t>(layout.size())), back(weights.size());
  initialise(layout, config, weights);
  const fs::path file = corpus_.folder() / "w.safetensors";
  ASSERT_TRUE(write_safetensors(file, named_tensors(layout, weights)).ok());
  ASSERT_TRUE(read_safetensors(file, named_tensors(layout, back)).ok());
  EXPECT_EQ(weights, back);
  Config wider = config;
  wider.width = 64;
  const Layout other(wider);
  std::vector<float> unused(static_cast<size_t>(other.size()));
  const auto misfit = read_safetensors(file, named_tensors(other, unused));
  ASSERT_FALSE(misfit.ok());
  EXPECT_THAT(misfit.error().what, HasSubstr("wte is \"F32\" [320,32], not F32 [320,64]"));
}

}  // namespace
}  // namespace kl::trainer
