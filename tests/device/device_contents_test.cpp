// verify and bench reach contents through the worker's calls only: the same code serves a device,
// whose memory the parent does not see.
#include "device_worker.hpp"

#include <lab/bench/arm.hpp>
#include <lab/build/builder.hpp>
#include <lab/verify/case_queue.hpp>
#include <lab/verify/case_trial.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

class DeviceContents : public testing::Test {
 protected:
  void SetUp() override {
    target_ = read_target(std::filesystem::path(KL_TARGETS) / "activation_pointwise").value();
    const Builder builder(*find_engine("cpu").value());
    oracle_.emplace(
        OracleLibrary::load(builder.build_oracle(target_.oracle()).value().path, target_.key)
            .value());
    group_ = {"list", {{"N", 9}, {"C", 33}}, "f32", {}, {}, {}};
  }
  CaseResult tried() {
    const CaseData data = prepare_case(*oracle_, target_, group_, item_, 11).value();
    auto created = CallSite::create(worker_, 0, data);
    CallSite site = std::get<CallSite>(std::move(std::get<0>(created)));
    const TrialContext context{&target_, &group_, &item_};
    CaseResult result = try_case(site, context, data, std::chrono::microseconds{0});
    graph_nodes_ = site.graph_nodes();
    return result;
  }

  Target target_;
  std::optional<OracleLibrary> oracle_;
  CaseGroup group_;
  Case item_;
  DeviceWorker worker_;
  std::map<size_t, int32_t> graph_nodes_;
};

TEST_F(DeviceContents, ARightKernelPassesAndItsGraphIsNoted) {
  const CaseResult result = tried();
  EXPECT_FALSE(result.failure.has_value()) << result.failure->proof;
  EXPECT_EQ(result.elements, 2 * 9 * 33);
  EXPECT_TRUE(result.repeatable);
  EXPECT_EQ(graph_nodes_.size(), 2u);
}

TEST_F(DeviceContents, AWrongElementOnTheDeviceIsFound) {
  worker_.run_error = 1;
  const CaseResult result = tried();
  ASSERT_TRUE(result.failure.has_value());
  EXPECT_EQ(result.failure->rule, "beyond-bound");
}

TEST_F(DeviceContents, AnInputChangedOnTheDeviceIsFound) {
  worker_.writes_input = true;
  const CaseResult result = tried();
  ASSERT_TRUE(result.failure.has_value());
  EXPECT_EQ(result.failure->rule, "writes-input");
}

TEST_F(DeviceContents, AReplayThatIsWrongFailsAndOneThatOnlyDiffersIsNotRepeatable) {
  worker_.replay_error = 1;
  CaseResult result = tried();
  ASSERT_TRUE(result.failure.has_value());
  EXPECT_EQ(result.failure->rule, "wrong-under-capture");
  worker_.replay_error = 0;
  worker_.replay_rounds_otherwise = true;
  result = tried();
  ASSERT_TRUE(result.failure.has_value());
  EXPECT_EQ(result.failure->status, Status::rejected);
  EXPECT_EQ(result.failure->rule, "not-repeatable");
  target_.bitwise_repeatable = false;
  result = tried();
  EXPECT_FALSE(result.failure.has_value());
  EXPECT_FALSE(result.repeatable);
}

TEST_F(DeviceContents, ALargeCaseOfRepeatedRowsIsWrittenAndJudgedThere) {
  group_.axes = {{"N", 5000}, {"C", 33}};
  group_.tile_rows = 300;
  CaseResult result = tried();
  EXPECT_FALSE(result.failure.has_value()) << result.failure->proof;
  EXPECT_EQ(result.elements, 2 * 5000 * 33);
  worker_.run_error = 1;
  EXPECT_TRUE(tried().failure.has_value());
}

TEST_F(DeviceContents, TimedCallsAreFetchedByRowsAndHeldAgainstTheOracle) {
  SeamShape shape;
  shape.axes = {{"N", 64}, {"C", 40}};
  std::vector<SeamCase> cases;
  cases.push_back(SeamCase::create(target_, shape, 3).value());
  auto made = Arm::create(worker_, target_, cases, 0, std::nullopt);
  Arm arm = std::move(std::get<0>(made));
  const TimedChecker checker(target_, *oracle_);
  std::mt19937_64 random(5);
  const auto found = [&](size_t operation, bool whole) {
    const CallSlot slot{0, operation};
    (void)arm.renew(slot, random);
    (void)arm.run(slot, false);
    const auto rows = checker.draw_rows(cases[0], 4, random);
    worker_.fetched_bytes = 0;
    (void)arm.fetch(slot, whole ? nullptr : &rows);
    return whole ? checker.whole(cases[0], arm.finished(slot)).value()
                 : checker.rows(cases[0], arm.finished(slot), rows).value();
  };
  EXPECT_FALSE(found(0, false).failing.has_value());
  EXPECT_EQ(worker_.fetched_bytes, 2 * 4 * 40 * 4);  // h and y, four rows of each
  EXPECT_FALSE(found(1, false).failing.has_value());
  EXPECT_FALSE(found(0, true).failing.has_value());
  EXPECT_FALSE(found(1, true).failing.has_value());
  worker_.run_error = 1;
  const auto wrong = found(0, true);
  ASSERT_TRUE(wrong.failing.has_value());
  EXPECT_EQ(wrong.failing->index, (std::vector<int64_t>{0, 0}));
}

TEST_F(DeviceContents, ALargeTimedCallIsCheckedInChunksToTheLastElement) {
  SeamShape shape;
  shape.axes = {{"N", 20001}, {"C", 130}};  // 5.2 million elements in forward
  std::vector<SeamCase> cases;
  cases.push_back(SeamCase::create(target_, shape, 3).value());
  auto made = Arm::create(worker_, target_, cases, 0, std::nullopt);
  Arm arm = std::move(std::get<0>(made));
  const TimedChecker checker(target_, *oracle_);
  std::mt19937_64 random(5);
  const CallSlot slot{0, 0};
  (void)arm.renew(slot, random);
  (void)arm.run(slot, false);
  (void)arm.fetch(slot, nullptr);
  FinishedCall finished = arm.finished(slot);
  const auto right = checker.whole(cases[0], finished).value();
  EXPECT_FALSE(right.failing.has_value());
  EXPECT_EQ(right.elements, 20001 * 130);
  std::vector<std::byte> spoilt(finished.outputs[0], finished.outputs[0] + 20001 * 130 * 4);
  auto* values = reinterpret_cast<float*>(spoilt.data());
  values[20000 * 130 + 129] += 100;
  const float right_value = values[777 * 130 + 3];
  values[777 * 130 + 3] += 100;
  finished.outputs[0] = spoilt.data();
  const auto wrong = checker.whole(cases[0], finished).value();
  ASSERT_TRUE(wrong.failing.has_value());
  EXPECT_EQ(wrong.failing->index, (std::vector<int64_t>{777, 3}));
  values[777 * 130 + 3] = right_value;
  const auto last = checker.whole(cases[0], finished).value();
  ASSERT_TRUE(last.failing.has_value());
  EXPECT_EQ(last.failing->index, (std::vector<int64_t>{20000, 129}));
}

}  // namespace
}  // namespace kl
