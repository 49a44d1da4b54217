#include <lab/build/builder.hpp>
#include <lab/core/files.hpp>
#include <lab/verify/case_queue.hpp>

#include <gtest/gtest.h>

#include <map>

namespace kl {
namespace {

// y = row of x times `scale` (an expression), s accumulates the columns' sums.
class Expansion : public testing::Test {
 protected:
  void make(const std::string& scale) {
    const fs::path folder = folder_.path() / "sums";
    ASSERT_TRUE(make_directories(folder).ok());
    ASSERT_TRUE(write_file_atomic(folder / "spec.toml", R"(key = "sums"
title = "sums"
row_axis = "N"
[[operation]]
name = "forward"
inputs = [{ name = "x", axes = ["N", "C"] }]
outputs = [
  { name = "y", axes = ["N", "C"], terms = "1" },
  { name = "s", axes = ["C"], mode = "accumulate", terms = "N" },
]
[cases]
quick = [{ N = 3, C = 5 }]
)")
                    .ok());
    ASSERT_TRUE(write_file_atomic(folder / "oracle.cpp", R"(#include <kernel_lab/oracle.hpp>
namespace {
template <class R>
int evaluate(const kl::oracle::CallTable&, const kl::oracle::Call<R>& call) {
  const int64_t n = call.dim(0, 0), width = call.dim(0, 1);
  for (int64_t c = 0; c < width; ++c) {
    R sum = call.before(1, c);
    for (int64_t r = 0; r < n; ++r) {
      call.out(0, r * width + c, call.in(0, r * width + c) * R()" + scale + R"());
      sum += call.in(0, r * width + c);
    }
    call.out(1, c, sum);
  }
  return 0;
}
int no_cost(const kl_problem&, kl::oracle::Cost&) { return 0; }
}
KL_EXPORT_ORACLE("sums", evaluate, no_cost);
)")
                    .ok());
    target_ = read_target(folder).value();
    const Builder builder(*find_engine("cpu").value(), folder_.path() / "cache");
    oracle_.emplace(
        OracleLibrary::load(builder.build_oracle(target_.oracle()).value().path, "sums").value());
    group_ = {"trainer", {{"N", 1000}, {"C", 5}}, "f32", {}, {}, {}};
  }

  TemporaryFolder folder_ = TemporaryFolder::create("kernel-lab-expansion").value();
  Target target_;
  std::optional<OracleLibrary> oracle_;
  CaseGroup group_;
};

TEST_F(Expansion, TheTilesAnswerIsTheWholeCasesAnswer) {
  make("2");
  group_.tile_rows = 300;  // three times each, and the first hundred once more
  const auto tile = prepare_case(*oracle_, target_, group_, Case{}, 5);
  ASSERT_TRUE(tile.ok()) << tile.error().what;
  ASSERT_TRUE(tile->expansion != nullptr);
  // The same contents as one ordinary case of a thousand rows.
  OperationData whole = tile->operations[0];
  const auto& source = tile->expansion->source;
  const size_t row = 5 * sizeof(float);
  for (auto* tensor : {&whole.inputs[0], &whole.outputs[0]}) tensor->shape[0] = 1000;
  std::vector<std::byte> all;
  std::map<uint32_t, int> uses;
  for (const uint32_t from : source) {
    const auto begin = whole.inputs[0].bytes.begin() + static_cast<std::ptrdiff_t>(from * row);
    all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(row));
    ++uses[from];
  }
  whole.inputs[0].bytes = all;
  const auto expected = evaluate_operation(*oracle_, whole);
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(uses.size(), 300u);
  EXPECT_EQ(uses[0], 4);
  EXPECT_EQ(uses[299], 3);
  for (size_t i = 0; i < 1000 * 5; ++i)
    EXPECT_EQ((*expected)[0].values[i],
              tile->expected[0][0].values[source[i / 5] * size_t{5} + i % 5]);
  for (size_t c = 0; c < 5; ++c) {
    EXPECT_NEAR((*expected)[1].values[c], tile->expected[0][1].values[c], 1e-10);
    EXPECT_NEAR((*expected)[1].terms[c], tile->expected[0][1].terms[c], 1e-9);
  }
  EXPECT_TRUE(check_expansion(*oracle_, *tile).ok());
}

TEST_F(Expansion, AnOracleWhoseRowsDependOnTheirNumberIsRefused) {
  make("1.0 / static_cast<double>(n)");
  group_.tile_rows = 300;
  const auto tile = prepare_case(*oracle_, target_, group_, Case{}, 5);
  ASSERT_TRUE(tile.ok());
  const Outcome outcome = check_expansion(*oracle_, *tile);
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.error().what.find("y of forward"), std::string::npos) << outcome.error().what;
}

TEST_F(Expansion, OnlyLargeCasesHaveATileAndAStridedOneNever) {
  make("2");
  EXPECT_EQ(tile_rows_of(target_, group_, 1 << 22), 0);
  EXPECT_EQ(tile_rows_of(target_, group_, 1000), 0);  // a tile would be as large
  group_.axes = {{"N", 1 << 20}, {"C", 64}};
  EXPECT_EQ(tile_rows_of(target_, group_, 1 << 22), (1 << 20) / 64);
  group_.strides["x"] = {70, 1};
  EXPECT_EQ(tile_rows_of(target_, group_, 1 << 22), 0);
}

TEST_F(Expansion, ATargetWhoseRowsAreNotFirstIsNotExpandable) {
  make("2");
  EXPECT_TRUE(is_expandable(target_));
  target_.operations[0].inputs[0].axes = {"C", "N"};
  EXPECT_FALSE(is_expandable(target_));
}

}  // namespace
}  // namespace kl
