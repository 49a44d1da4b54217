#include <lab/bench/timed_check.hpp>

#include <lab/build/builder.hpp>
#include <lab/core/installation.hpp>
#include <lab/worker/draw.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace kl {
namespace {

// Squared ReLU on 16 × 8: y = relu(h)².
class TimedCheckerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto target = Catalogue::search(target_search_path({})).find("activation_pointwise");
    ASSERT_TRUE(target.ok()) << target.error().what;
    target_ = *target;
    const auto engine = find_engine("cpu");
    ASSERT_TRUE(engine.ok());
    const auto built = Builder(**engine).build_oracle(target_.oracle());
    ASSERT_TRUE(built.ok()) << built.error().what;
    auto oracle = OracleLibrary::load(built->path, target_.key);
    ASSERT_TRUE(oracle.ok()) << oracle.error().what;
    oracle_.emplace(std::move(*oracle));
    SeamShape shape;
    shape.axes = {{"N", 16}, {"C", 8}};
    auto made = SeamCase::create(target_, shape, 7);
    ASSERT_TRUE(made.ok()) << made.error().what;
    case_.emplace(std::move(*made));
    h_.resize(128);
    draw_from_pool(pool().dtype, pool().bytes, 5, -1.5, reinterpret_cast<std::byte*>(h_.data()));
    for (const float h : h_) y_.push_back(h > 0 ? h * h : 0);
  }

  const TensorData& pool() const { return case_->pool.operations[0].inputs[0]; }
  FinishedCall call() const {
    FinishedCall call;
    call.operation = &target_.operations[0];
    call.inputs = {reinterpret_cast<const std::byte*>(h_.data())};
    call.outputs = {reinterpret_cast<const std::byte*>(y_.data())};
    call.base_draws.resize(1);
    return call;
  }

  Target target_;
  std::optional<OracleLibrary> oracle_;
  std::optional<SeamCase> case_;
  std::vector<float> h_, y_;
};

TEST_F(TimedCheckerTest, ADrawIsThePoolRotatedAndScaled) {
  const auto* values = reinterpret_cast<const float*>(pool().bytes.data());
  EXPECT_EQ(h_[0], -1.5f * values[5]);
  EXPECT_EQ(h_[122], -1.5f * values[127]);
  EXPECT_EQ(h_[123], -1.5f * values[0]);
  EXPECT_EQ(h_[127], -1.5f * values[4]);
}

TEST_F(TimedCheckerTest, DrawsDifferFromRepetitionToRepetition) {
  std::mt19937_64 random(1);
  const Draw first = random_draw(pool(), InputKind::real, random);
  const Draw second = random_draw(pool(), InputKind::real, random);
  EXPECT_NE(first.factor, second.factor);
  EXPECT_EQ(random_draw(pool(), InputKind::index, random).factor, 1);
}

TEST_F(TimedCheckerTest, AFractionStaysOneWhenDrawnAgain) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    const double factor = random_draw(pool(), InputKind::fraction, random).factor;
    EXPECT_GT(0.125 * factor, 0);
    EXPECT_LT(0.75 * factor, 1);
  }
}

TEST_F(TimedCheckerTest, RightResultsPassWhollyAndByRows) {
  const TimedChecker checker(target_, *oracle_);
  std::mt19937_64 random(1);
  const auto whole = checker.whole(*case_, call());
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->elements, 128);
  EXPECT_FALSE(whole->failing.has_value());
  const auto rows = checker.rows(*case_, call(), checker.draw_rows(*case_, 3, random));
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->elements, 24);
  EXPECT_FALSE(rows->failing.has_value());
}

TEST_F(TimedCheckerTest, AWrongElementIsFoundAtItsPlaceInTheWholeTensor) {
  y_[8 * 11 + 3] += 1;
  const TimedChecker checker(target_, *oracle_);
  const auto whole = checker.whole(*case_, call());
  ASSERT_TRUE(whole.ok() && whole->failing.has_value());
  EXPECT_EQ(whole->failing->index, (std::vector<int64_t>{11, 3}));
  EXPECT_EQ(whole->failing->output, "y");
  std::mt19937_64 random(1);
  const auto rows = checker.rows(*case_, call(), checker.draw_rows(*case_, 200, random));  // among 200 rows of 16 is row 11
  ASSERT_TRUE(rows.ok() && rows->failing.has_value());
  EXPECT_EQ(rows->failing->index, (std::vector<int64_t>{11, 3}));
}

TEST_F(TimedCheckerTest, StridedTensorsAreReadWhereTheyLieAndTheirGapsHoldDrawsToo) {
  SeamShape shape = case_->shape;
  shape.strides["h"] = shape.strides["y"] = {12, 1};
  case_ = SeamCase::create(target_, shape, 7).value();
  ASSERT_EQ(pool().bytes.size(), (15 * 12 + 8) * sizeof(float));
  h_.resize(15 * 12 + 8);
  draw_from_pool(pool().dtype, pool().bytes, 5, -1.5, reinterpret_cast<std::byte*>(h_.data()));
  y_.assign(h_.size(), -1);
  for (size_t i = 0; i < h_.size(); ++i)
    if (i % 12 < 8) y_[i] = h_[i] > 0 ? h_[i] * h_[i] : 0;
  EXPECT_NE(h_[9], h_[10]);
  const TimedChecker checker(target_, *oracle_);
  const auto right = checker.whole(*case_, call());
  ASSERT_TRUE(right.ok());
  EXPECT_EQ(right->elements, 128);
  EXPECT_FALSE(right->failing.has_value());
  y_[12 * 11 + 3] += 1;
  const std::vector<int64_t> others{0, 10, 15}, with_it{2, 11};
  const auto unseen = checker.rows(*case_, call(), others);
  ASSERT_TRUE(unseen.ok());
  EXPECT_FALSE(unseen->failing.has_value());
  const auto seen = checker.rows(*case_, call(), with_it);
  ASSERT_TRUE(seen.ok() && seen->failing.has_value());
  EXPECT_EQ(seen->failing->index, (std::vector<int64_t>{11, 3}));
}

TEST_F(TimedCheckerTest, PoisonLeftInAnOutputIsCalledUnwritten) {
  poison({kDLFloat, 32, 1}, reinterpret_cast<std::byte*>(&y_[40]), 1, 0);
  const auto whole = TimedChecker(target_, *oracle_).whole(*case_, call());
  ASSERT_TRUE(whole.ok() && whole->failing.has_value());
  EXPECT_TRUE(whole->unwritten);
}

TEST_F(TimedCheckerTest, AnOutputWithoutRowsIsNotLeftUntouched) {
  target_.row_axis = "C";  // y has it, but not first
  const TimedChecker checker(target_, *oracle_);
  std::mt19937_64 random(1);
  const auto written = checker.rows(*case_, call(), checker.draw_rows(*case_, 2, random));
  ASSERT_TRUE(written.ok());
  EXPECT_FALSE(written->failing.has_value());
  poison({kDLFloat, 32, 1}, reinterpret_cast<std::byte*>(y_.data()), 128, 0);
  const auto untouched = checker.rows(*case_, call(), checker.draw_rows(*case_, 2, random));
  ASSERT_TRUE(untouched.ok());
  EXPECT_TRUE(untouched->needs_whole);
  EXPECT_FALSE(written->needs_whole);
}

}  // namespace
}  // namespace kl
