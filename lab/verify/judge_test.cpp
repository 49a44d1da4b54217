#include <lab/verify/judge.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace kl {
namespace {

constexpr DLDataType kF32{kDLFloat, 32, 1};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

OracleOutput expecting(std::vector<double> values) {
  OracleOutput output{"y", {static_cast<int64_t>(values.size())}, values, {}};
  for (const double v : values) output.terms.push_back(std::fabs(v));
  return output;
}

OutputVerdict judged(const std::vector<double>& expected, const std::vector<float>& got,
                     int pattern = -1) {
  const Bound bound{0x1p-24, 6 * 0x1p-24, 0x1p-126};
  return judge_output(expecting(expected), kF32, std::as_bytes(std::span(got)), bound, pattern);
}

TEST(Judge, AcceptsWithinTheBoundAndNamesTheFirstElementBeyondIt) {
  const float close = std::nextafter(2.0f, 3.0f);
  EXPECT_TRUE(judged({1, 2, 3}, {1, close, 3}).passed());
  const OutputVerdict verdict = judged({1, 2, 3, 4}, {1, 2.00001f, 3, 5});
  EXPECT_EQ(verdict.first_failure, 1);
  EXPECT_EQ(verdict.worst_element, 3);
  EXPECT_EQ(verdict.max_error, 1);
}

TEST(Judge, ComparesWithTheChampionOnlyErrorsBeyondThoseOfPlainSums) {
  OracleOutput output = expecting({1, 2, 3});
  output.terms[1] = 2000;  // a sum of which little is left
  const Bound bound{0x1p-24, 6 * 0x1p-24, 0x1p-126};
  const auto judge = [&](std::vector<float> got) {
    return judge_output(output, kF32, std::as_bytes(std::span(got)), bound, -1);
  };
  const OutputVerdict plain = judge({1, 2.0002f, 3});
  EXPECT_EQ(plain.worst_element, 1);
  EXPECT_EQ(plain.worst_beyond_plain, -1);
  EXPECT_EQ(plain.beyond_plain, 0);
  const OutputVerdict worse = judge({1, 2.0004f, 3.0000007f});
  EXPECT_TRUE(worse.passed());
  EXPECT_EQ(worse.worst_beyond_plain, 1);
  EXPECT_EQ(worse.beyond_plain, worse.max_error);
  const OutputVerdict smaller = judge({1, 2.0002f, 3.0000010f});
  EXPECT_EQ(smaller.worst_element, 1);
  EXPECT_EQ(smaller.worst_beyond_plain, 2);
}

TEST(Judge, OneWrongElementAmongManyIsEnough) {
  std::vector<double> expected(100000, 1.0);
  std::vector<float> got(100000, 1.0f);
  got[99999] = 1.0001f;
  EXPECT_EQ(judged(expected, got).first_failure, 99999);
}

TEST(Judge, NonFiniteValuesMatchInKindAndPlace) {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(judged({kNan, kInfinity, -kInfinity}, {nan, inf, -inf}).passed());
  EXPECT_FALSE(judged({kNan}, {1}).passed());
  EXPECT_FALSE(judged({1}, {nan}).passed());
  EXPECT_FALSE(judged({1}, {inf}).passed());
  EXPECT_FALSE(judged({kInfinity}, {-inf}).passed());
  EXPECT_FALSE(judged({kInfinity}, {nan}).passed());
  EXPECT_FALSE(judged({kInfinity}, {std::numeric_limits<float>::max()}).passed());
  EXPECT_TRUE(judged({1e39}, {inf}).passed());  // beyond f32: rounds to infinity
}

TEST(Judge, ABoundThatIsNotANumberPassesNothing) {
  OracleOutput output = expecting({1.0});
  output.terms[0] = kNan;
  const std::vector<float> got = {1.5f};
  const Bound bound{0, kNan, 0};
  EXPECT_FALSE(judge_output(output, kF32, std::as_bytes(std::span(got)), bound, -1).passed());
}

TEST(Judge, AnUnwrittenElementIsToldFromAWrongOne) {
  std::vector<float> got(2, 1.0f);
  poison(kF32, reinterpret_cast<std::byte*>(&got[1]), 1, 0);
  const OutputVerdict verdict = judged({1, 1}, got, 0);
  EXPECT_EQ(verdict.first_failure, 1);
  EXPECT_TRUE(verdict.unwritten);
  EXPECT_FALSE(judged({1, 1}, {1, 2}, 0).unwritten);
}

TEST(Judge, TheReportHasIndexExpectedGotAndBound) {
  OracleOutput output{"y", {2, 3}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}};
  const std::vector<float> got = {0, 1, 2, 3, 4.5f, 5};
  const FailingElement failing =
      describe_element(output, kF32, std::as_bytes(std::span(got)), 4, 0.25);
  EXPECT_EQ(failing.index, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(failing.expected, 4);
  EXPECT_EQ(failing.got, 4.5);
  EXPECT_EQ(failing.bound, 0.25);
  EXPECT_EQ(failing.output, "y");
}

TEST(Bound, IsOutputRoundOffPlusAccumulatedTerms) {
  Target target;
  const Bound bound = make_bound(target, kF32, 100, true);
  EXPECT_DOUBLE_EQ(bound(2, 10), 2 * 0x1p-24 + 60 * 0x1p-24 * 10);
  target.bound_c = 2;
  EXPECT_DOUBLE_EQ(make_bound(target, kF32, 100, true)(2, 10), 2 * 0x1p-24 + 120 * 0x1p-24 * 10);
}

// Between subnormals the steps no longer shrink with the value: half of one must pass, and not more.
TEST(Bound, AllowsTheRoundingOfASubnormal) {
  Target target;
  constexpr DLDataType kBf16{kDLBfloat, 16, 1};
  constexpr double kStep = 0x1p-133;
  const Bound bound = make_bound(target, kBf16, 1024, true);
  EXPECT_GE(bound(3.5 * kStep, 0), 0.5 * kStep);
  EXPECT_LT(bound(3.5 * kStep, 0), kStep);
  EXPECT_GE(make_bound(target, kF32, 1, true)(0x1p-140, 0), 0x1p-150);
}

TEST(Bound, StructuredDataMayErrInOneDirection) {
  EXPECT_EQ(gamma_of(10000, true), 600);
  EXPECT_EQ(gamma_of(10000, false), 10000);
  EXPECT_EQ(gamma_of(4, false), gamma_of(4, true));
}

TEST(Bound, IntegersMustBeExact) {
  Target target;
  EXPECT_EQ(make_bound(target, DLDataType{kDLInt, 32, 1}, 100, true)(5, 5), 0);
}

TEST(Bound, AMathsClassLoosensTheAccumulatorOnly) {
  Target target;
  target.maths = MathsClass::reduced_precision;
  EXPECT_DOUBLE_EQ(make_bound(target, kF32, 1, true)(1, 1), 0x1p-24 + 6 * 0x1p-8);
}

TEST(ChampionCap, IsKTimesTheChampionsErrorAndAtLeastOneUlp) {
  EXPECT_DOUBLE_EQ(champion_cap(16, 1e-6, 1.0, 100, kF32), 16e-6);
  EXPECT_DOUBLE_EQ(champion_cap(16, 0, 1.0, 100, kF32), 0x1p-23);
  EXPECT_EQ(champion_cap(16, 1e-6, 1.0, 1, kF32), kInfinity);  // one element: luck of the draw
  EXPECT_EQ(champion_cap(16, kInfinity, 1.0, 100, kF32), kInfinity);
}

}  // namespace
}  // namespace kl
