#include <lab/verify/inputs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kl {
namespace {

constexpr DLDataType kF32{kDLFloat, 32, 1};

std::vector<double> drawn(Recipe recipe, uint64_t seed, DLDataType dtype = kF32) {
  TensorData tensor;
  tensor.dtype = dtype;
  tensor.shape = {recipe.rows, recipe.row_length};
  tensor.bytes.resize(static_cast<size_t>(tensor.size()) * element_bytes(dtype));
  fill(dtype, recipe, seed, tensor.bytes.data());
  return tensor.values();
}

Recipe rows_of(Distribution distribution, int64_t rows = 64, int64_t length = 1001) {
  Recipe recipe;
  recipe.distribution = distribution;
  recipe.rows = rows;
  recipe.row_length = length;
  return recipe;
}

struct Moments {
  double mean = 0, variance = 0, largest = 0;
};
Moments moments(const std::vector<double>& values) {
  Moments m;
  for (const double v : values) m.mean += v;
  m.mean /= static_cast<double>(values.size());
  for (const double v : values) m.variance += (v - m.mean) * (v - m.mean);
  m.variance /= static_cast<double>(values.size());
  for (const double v : values) m.largest = std::max(m.largest, std::fabs(v));
  return m;
}

TEST(Inputs, SameSeedSameBytesAndAnotherSeedOthers) {
  const Recipe recipe = rows_of(Distribution::normal);
  EXPECT_EQ(drawn(recipe, 7), drawn(recipe, 7));
  EXPECT_NE(drawn(recipe, 7), drawn(recipe, 8));
}

TEST(Inputs, NormalHasMeanZeroAndVarianceOne) {
  const Moments m = moments(drawn(rows_of(Distribution::normal), 1));
  EXPECT_NEAR(m.mean, 0, 0.02);  // 64064 draws: 5 standard errors
  EXPECT_NEAR(m.variance, 1, 0.03);
  EXPECT_GT(m.largest, 3.2);
}

TEST(Inputs, UniformFillsItsIntervalEvenly) {
  const auto values = drawn(rows_of(Distribution::uniform), 2);
  const Moments m = moments(values);
  EXPECT_NEAR(m.variance, 1.0 / 3, 0.01);
  EXPECT_LT(m.largest, 1.0 + 1e-9);
  EXPECT_GT(m.largest, 0.999);
}

TEST(Inputs, HeavyTailReachesFarBeyondNormal) {
  const Moments m = moments(drawn(rows_of(Distribution::heavy_tail), 3));
  EXPECT_GT(m.largest, 40);
}

TEST(Inputs, PermutedRowsAreTheRowsOfNormalAndOnlyTheFirstStays) {
  const auto normal = drawn(rows_of(Distribution::normal), 5);
  const auto permuted = drawn(rows_of(Distribution::permuted_rows), 5);
  std::multiset<double> first, second;
  for (size_t row = 0; row < 64; ++row) {
    first.insert(normal[row * 1001]);
    second.insert(permuted[row * 1001]);
    EXPECT_EQ(normal[row * 1001] == permuted[row * 1001], row == 0) << row;
  }
  EXPECT_EQ(first, second);
}

TEST(Inputs, EdgeDistributionsHoldWhatTheyAreNamedFor) {
  const auto constant = drawn(rows_of(Distribution::constant_rows, 4, 8), 1);
  EXPECT_EQ(constant[0], constant[7]);
  EXPECT_NE(constant[0], constant[8]);
  for (const double v : drawn(rows_of(Distribution::subnormals), 1))
    EXPECT_LT(std::fabs(v), 0x1p-126);
  const auto zeros = drawn(rows_of(Distribution::signed_zeros), 1);
  EXPECT_TRUE(std::any_of(zeros.begin(), zeros.end(), [](double v) { return std::signbit(v); }));
  EXPECT_TRUE(std::all_of(zeros.begin(), zeros.end(), [](double v) { return v == 0; }));
  const auto wild = drawn(rows_of(Distribution::non_finite), 1);
  EXPECT_TRUE(std::any_of(wild.begin(), wild.end(), [](double v) { return std::isnan(v); }));
  EXPECT_TRUE(std::any_of(wild.begin(), wild.end(), [](double v) { return std::isinf(v); }));
  EXPECT_NEAR(std::sqrt(moments(drawn(rows_of(Distribution::large_scale), 1)).variance), 1024, 30);
}

TEST(Inputs, IndicesCoverTheirRangeAndSometimesAreIgnored) {
  Recipe recipe = rows_of(Distribution::normal);
  recipe.kind = InputKind::index;
  recipe.index_bound = 7;
  recipe.ignore = -1;
  const auto values = drawn(recipe, 3, DLDataType{kDLInt, 32, 1});
  EXPECT_EQ(std::set<double>(values.begin(), values.end()),
            (std::set<double>{-1, 0, 1, 2, 3, 4, 5, 6}));
}

TEST(Inputs, UnitIsBetweenOneHalfAndThreeHalves) {
  Recipe recipe = rows_of(Distribution::zeros);
  recipe.kind = InputKind::unit;
  for (const double v : drawn(recipe, 3)) {
    EXPECT_GE(v, 0.5);
    EXPECT_LE(v, 1.5);
  }
}

TEST(Inputs, AFractionIsBetweenAnEighthAndThreeQuarters) {
  Recipe recipe = rows_of(Distribution::large_scale);
  recipe.kind = InputKind::fraction;
  for (const double v : drawn(recipe, 3)) {
    EXPECT_GE(v, 0.125);
    EXPECT_LE(v, 0.75);
  }
}

TEST(Inputs, StreamsOfDifferentTensorsAreUnrelated) {
  EXPECT_NE(derive_seed(1, "x"), derive_seed(1, "dy"));
  EXPECT_NE(derive_seed(1, "x"), derive_seed(2, "x"));
}

}  // namespace
}  // namespace kl
