// Kernels that try to look fast, and the status each must get; honest twins beside them. Effects
// on time are made large, so that a busy machine does not decide.
#include <lab/bench/bench.hpp>
#include <lab/core/installation.hpp>

#include <gtest/gtest.h>

#include <memory>

namespace kl {
namespace {

std::string text_of(const std::string& name) {
  const auto content = read_file(std::filesystem::path(KL_CHEATS) / name);
  return content ? *content : "#error " + content.error().what;
}

class BenchCheats : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::create("bench-cheats");
    ASSERT_TRUE(folder.ok()) << folder.error().what;
    folder_.emplace(std::move(*folder));
    auto target = Catalogue::search(target_search_path({})).find("activation_pointwise");
    ASSERT_TRUE(target.ok()) << target.error().what;
    target_ = *target;
    auto engine = find_engine("cpu");
    ASSERT_TRUE(engine.ok());
    engine_ = *engine;
  }

  // The skeleton with the cheat's own `run` behind it.
  std::filesystem::path kernel(const std::string& name) {
    const auto path = folder_->path() / (name + ".cpp");
    const std::string source = text_of("kept_memory.inc") + text_of("bench_skeleton.hpp") + "namespace {\n" +
                               text_of("bench_" + name + ".cpp") + "}\n";
    EXPECT_TRUE(write_file_atomic(path, source).ok());
    return path;
  }

  BenchRecord compare(const std::string& candidate, const std::string& baseline = "honest") {
    return decided(request_of(candidate, baseline));
  }
  // A busy machine may leave a bench undecided; that never excuses a wrong verdict.
  static BenchRecord decided(const BenchRequest& request) {
    BenchRecord record = bench(request);
    for (int i = 0; i < 4 && record.status == Status::inconclusive; ++i) record = bench(request);
    return record;
  }
  BenchRequest request_of(const std::string& candidate, const std::string& baseline) {
    BenchRequest request;
    request.engine = engine_;
    request.target = &target_;
    request.candidate = kernel(candidate);
    request.baseline = kernel(baseline);
    SeamShape shape;
    shape.axes = {{"N", 128}, {"C", 256}};
    request.shapes = {shape};
    request.preset = "cheats";
    request.mode = BenchMode::quick;
    request.rule = stats::kBenchQuick;
    request.rule->process_cap_seconds = 0.3;
    request.samples = folder_->path() / "samples";
    return request;
  }

  std::optional<TemporaryFolder> folder_;
  Target target_;
  Engine* engine_ = nullptr;
};

std::string explain(const BenchRecord& r) {
  return std::string(to_string(r.status)) + " " + r.reason + " " + r.rule + " " + r.proof;
}

#define EXPECT_REJECTED(record, expected_rule)                    \
  EXPECT_EQ(record.status, Status::rejected) << explain(record);  \
  EXPECT_EQ(record.rule, expected_rule) << explain(record);       \
  EXPECT_FALSE(record.proof.empty())

TEST_F(BenchCheats, AKernelThatDoesTheWorkTwelveTimesIsRegressed) {
  const auto record = compare("slow");
  EXPECT_EQ(record.status, Status::regressed) << explain(record);
  EXPECT_GT(record.ratio, 1.5);
}

TEST_F(BenchCheats, AKernelThatStopsDoingSoIsImproved) {
  const auto record = compare("honest", "slow");
  EXPECT_EQ(record.status, Status::improved) << explain(record);
  EXPECT_LT(record.ratio, 0.7);
  EXPECT_EQ(record.processes, 6);
  EXPECT_EQ(record.control_processes, 2);
  EXPECT_GT(record.calls_checked, 100);
  EXPECT_LT(record.candidate.cold_ns_per_step, record.baseline_time.cold_ns_per_step);
  ASSERT_EQ(record.cases.size(), 2u);
  EXPECT_DOUBLE_EQ(record.cases[0].bytes_read, 128 * 256 * 4);
  // The verdict can be recomputed from the samples that were kept.
  const auto raw = ObjectStore(folder_->path() / "samples").get(record.samples_file);
  ASSERT_TRUE(raw.ok());
  const auto samples = from_json<BenchSamples>(*parse_json(*raw, "samples"));
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(judge_series(*samples, stats::kBenchQuick).status, Status::improved);
}

// One false verdict in twenty would be the rule's own error rate; two alike in a row are a bias.
TEST_F(BenchCheats, AKernelAgainstItselfIsNeitherBetterNorWorse) {
  const auto first = bench(request_of("honest", "honest"));
  EXPECT_NE(first.status, Status::rejected) << explain(first);
  if (first.status == Status::equivalent || first.status == Status::inconclusive) return;
  const auto second = bench(request_of("honest", "honest"));
  EXPECT_NE(second.status, first.status) << explain(first) << " / " << explain(second);
}

TEST_F(BenchCheats, FasterThanTheMemoryCanBeIsSuspectAndShownWithItsBytes) {
  BenchRequest request = request_of("honest", "slow");
  request.theoretical_peak_gb_per_s = 1e-3;
  const auto record = decided(request);
  EXPECT_EQ(record.status, Status::suspect) << explain(record);
  EXPECT_EQ(record.reason, "impossible");
  EXPECT_NE(record.proof.find("model bytes"), std::string::npos) << record.proof;
}

TEST_F(BenchCheats, TheHonestTwinReadsEveryCheckAndPasses) {
  BenchRequest request = request_of("honest", "slow");
  request.theoretical_peak_gb_per_s = 1e6;
  request.ceilings = {{1 << 18, 0.5, true, 20, ""}};
  const auto record = decided(request);
  EXPECT_EQ(record.status, Status::improved) << explain(record);
  EXPECT_EQ(record.peak_check, "within");
  EXPECT_TRUE(record.clock_agreement.agrees);
  ASSERT_TRUE(record.cases[0].candidate_percent_of_ceiling.has_value());
  EXPECT_DOUBLE_EQ(*record.cases[0].candidate_percent_of_ceiling,
                   100 * record.cases[0].candidate_gb_per_s / 20);
}

TEST_F(BenchCheats, WithoutATheoreticalPeakTheMeasuredCeilingStandsIn) {
  BenchRequest request = request_of("honest", "slow");
  request.ceilings = {{1 << 18, 0.5, true, 1e-3, ""}};
  const auto record = decided(request);
  EXPECT_EQ(record.status, Status::suspect) << explain(record);
  EXPECT_EQ(record.peak_source, "measured");
  EXPECT_NE(record.proof.find("1.5 times the best rate"), std::string::npos) << record.proof;
}

TEST_F(BenchCheats, FastAtTheStepsShapeAndSlowElsewhereIsRegressed) {
  BenchRequest request = request_of("slow_elsewhere", "slow");
  target_.full = {{{{"N", 64}, {"C", 200}}, "f32"}};
  const auto record = decided(request);
  EXPECT_EQ(record.status, Status::regressed) << explain(record);
  EXPECT_EQ(record.reason, "other-case-regressed");
  EXPECT_NE(record.proof.find("C=200 N=64"), std::string::npos) << record.proof;
  EXPECT_LT(record.ratio, 0.7);
  ASSERT_EQ(record.cases.size(), 4u);
  EXPECT_EQ(record.cases[2].calls_per_step, 0);
  // Its twin is fast there too.
  const auto twin = decided(request_of("honest", "slow"));
  EXPECT_EQ(twin.status, Status::improved) << explain(twin);
  ASSERT_EQ(twin.shapes.size(), 2u);
  EXPECT_EQ(twin.shapes[1].status, Status::improved);
}

// Clocks on which the hypervisor takes half of every nth block.
ClockSampler stolen_every(int nth) {
  auto reads = std::make_shared<int>(0);
  auto stolen = std::make_shared<double>(0);
  return [=] {
    const int read = (*reads)++;  // even: before a block
    ClockSample sample = sample_clocks();
    sample.throttle_events.reset();
    sample.lowest_mhz.reset();
    if (read % 2 == 1 && read / 2 % nth == 0) *stolen += 1;
    sample.stolen_seconds = *stolen;
    return sample;
  };
}

TEST_F(BenchCheats, ABlockDuringWhichTheMachineWasTakenAwayIsRepeated) {
  BenchRequest request = request_of("honest", "slow");
  request.clocks = stolen_every(5);
  const auto record = decided(request);
  EXPECT_EQ(record.status, Status::improved) << explain(record);
  EXPECT_GT(record.blocks_set_aside, 8);  // at least one in each process
  EXPECT_LT(record.blocks_set_aside, record.blocks / 3);
  const auto raw = ObjectStore(folder_->path() / "samples").get(record.samples_file);
  const auto samples = from_json<BenchSamples>(*parse_json(*raw, "samples"));
  ASSERT_TRUE(samples.ok());
  EXPECT_FALSE(samples->processes[0].set_aside.at(0).candidate_step_ns.empty());
}

TEST_F(BenchCheats, AMachineThatIsNeverSteadyLeavesItUndecided) {
  BenchRequest request = request_of("honest", "slow");
  request.clocks = stolen_every(1);
  const auto record = bench(request);
  EXPECT_EQ(record.status, Status::inconclusive) << explain(record);
  EXPECT_EQ(record.reason, "unstable-clock");
  EXPECT_EQ(record.blocks, 0);
}

TEST_F(BenchCheats, AClockOfItsOwnIsAForbiddenSymbol) {
  const auto record = compare("defines_the_clock");
  EXPECT_REJECTED(record, "forbidden-symbol");
  EXPECT_NE(record.proof.find("clock_gettime"), std::string::npos);
}

TEST_F(BenchCheats, WorkDoneOnlyInTheFirstCallsIsFound) {
  const auto record = compare("works_once");
  EXPECT_REJECTED(record, "timed-call-wrong");
  EXPECT_NE(record.proof.find("never written"), std::string::npos) << record.proof;
}

TEST_F(BenchCheats, AStaticCounterIsRefusedBeforeAnythingIsTimed) {
  const auto record = compare("counts_in_a_static");
  EXPECT_REJECTED(record, "writable-static");
  EXPECT_NE(record.proof.find("calls (4 bytes in .bss)"), std::string::npos) << record.proof;
  EXPECT_NE(record.remedy.find("scratch"), std::string::npos) << record.remedy;
}

TEST_F(BenchCheats, AnAnswerReplayedForTheSamePointerIsFound) {
  EXPECT_REJECTED(compare("replays_by_pointer"), "timed-call-wrong");
}

TEST_F(BenchCheats, AnAnswerKeptForTheSameValuesNeverServes) {
  const auto record = compare("replays_by_value");
  EXPECT_NE(record.status, Status::improved) << explain(record);
}

TEST_F(BenchCheats, RightOnlyWhileWatchedIsFoundLater) {
  EXPECT_REJECTED(compare("right_while_watched"), "timed-call-wrong");
}

TEST_F(BenchCheats, ABackwardPassThatIsSkippedIsFound) {
  const auto record = compare("skips_backward");
  EXPECT_REJECTED(record, "timed-call-wrong");
  ASSERT_TRUE(record.failing.has_value());
  EXPECT_EQ(record.failing->operation, "backward");
}

TEST_F(BenchCheats, AProcessStartedBesideTheBaselineIsDenied) {
  const auto record = compare("spinning_thread");
  EXPECT_EQ(record.status, Status::rejected) << explain(record);
}

TEST_F(BenchCheats, PinningTheThreadPoolIsDenied) {
  const auto record = compare("pins_threads");
  EXPECT_EQ(record.status, Status::rejected) << explain(record);
}

TEST_F(BenchCheats, FlushToZeroLeftInThePoolIsFound) {
  EXPECT_REJECTED(compare("flushes_subnormals"), "floating-point-state");
}

TEST_F(BenchCheats, PrintedVerdictsAreTextAndNothingElse) {
  const auto record = compare("prints");
  EXPECT_NE(record.status, Status::improved) << explain(record);
  ASSERT_TRUE(record.details.contains("printed")) << explain(record);
  EXPECT_NE(record.details["printed"].get<std::string>().find("PASS"), std::string::npos);
}

TEST_F(BenchCheats, FillingTheCachesSlowsOnlyTheKernelThatDoesIt) {
  const auto record = compare("dirties_the_cache");
  EXPECT_EQ(record.status, Status::regressed) << explain(record);
}

}  // namespace
}  // namespace kl
