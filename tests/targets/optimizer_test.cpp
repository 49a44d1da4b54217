// The optimiser's step where it can be worked out by hand.
#include "target_call.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace kl::target_test {
namespace {

enum { kAdamW = 0, kMuon = 1 };

std::vector<OracleOutput> step(CallData& call) {
  return evaluate(target("optimizer_update").oracle, call, false);
}
CallData call_of(int operation, const Axes& axes) {
  return make_call(target("optimizer_update").spec.operations[static_cast<size_t>(operation)], axes,
                   1);
}

TEST(AdamWOracle, TheFirstStepHasTheLengthOfTheRateAgainstTheGradientsSign) {
  CallData call = call_of(kAdamW, {{"N", 2}, {"S", 1}, {"R", 1}, {"C", 1}, {"M", 1}});
  call.input("g").values = {2, -0.5};
  call.input("hyper").values = {0.01, 0.8, 0.95, 1e-10, 0, 0.2, 0.05};
  call.outputs[0].values = {1, 1};
  call.outputs[1].values = call.outputs[2].values = {0, 0};
  const auto after = step(call);
  EXPECT_NEAR(after[0].values[0], 0.99, 1e-10);
  EXPECT_NEAR(after[0].values[1], 1.01, 1e-10);
  EXPECT_NEAR(after[1].values[0], 0.4, 1e-14);
  EXPECT_NEAR(after[2].values[0], 0.2, 1e-14);
}

TEST(AdamWOracle, DecayDoesNotPassThroughTheMoments) {
  CallData call = call_of(kAdamW, {{"N", 1}, {"S", 1}, {"R", 1}, {"C", 1}, {"M", 1}});
  call.input("g").values = {0};
  call.input("hyper").values = {0.5, 0.8, 0.95, 1e-10, 0.1, 0.2, 0.05};
  call.outputs[0].values = {3};
  call.outputs[1].values = call.outputs[2].values = {0};
  EXPECT_NEAR(step(call)[0].values[0], 3 * 0.95, 1e-14);
}

// All singular values of a multiple of the identity are one number, which the five polynomials take
// from 3 / (1.02 * 6 + 1e-6) to this; equal lines keep their scale.
TEST(MuonOracle, AMultipleOfTheIdentityStaysOneAndDecaysOnlyWhereThatHelps) {
  constexpr double kPolar = 1.0864060655742596, kRate = 0.5, kDecay = 0.1;
  CallData call = call_of(kMuon, {{"N", 1}, {"S", 1}, {"R", 4}, {"C", 4}, {"M", 4}});
  call.input("muon_hyper").values = {kRate, 0, 0.75, kDecay};
  call.input("g_stack").values.assign(16, 0);
  call.outputs[0].values.assign(16, 0);
  for (size_t i = 0; i < 4; ++i) {
    call.input("g_stack").values[5 * i] = 3;
    call.outputs[0].values[5 * i] = i == 0 ? -2 : 2;
  }
  call.outputs[2].values.assign(4, 0);
  const auto after = step(call);
  for (size_t i = 0; i < 16; ++i) {
    const double before = call.outputs[0].values[i];
    const double update = i % 5 == 0 ? kPolar : 0;
    const double decay = before > 0 ? kRate * kDecay * before : 0;
    EXPECT_NEAR(after[0].values[i], before - kRate * update - decay, 1e-9) << i;
    EXPECT_EQ(after[1].values[i], call.input("g_stack").values[i]) << i;
  }
  for (const double second : after[2].values) EXPECT_NEAR(second, 0.25 * kPolar * kPolar / 4, 1e-9);
}

// A matrix of rank 1 with norm 6 has one singular value, which the polynomials take to this.
constexpr double kPolarOfRankOne = 0.9035632387157779;

// Parameters of zeros after a step of rate 1/2 along a gradient of threes.
std::vector<double> step_along_threes(int64_t rows, int64_t columns) {
  CallData call = call_of(kMuon, {{"N", 1}, {"S", 1}, {"R", rows}, {"C", columns}, {"M", 4}});
  call.input("muon_hyper").values = {0.5, 0, 0.75, 0.1};
  call.input("g_stack").values.assign(4, 3);
  call.outputs[0].values.assign(4, 0);
  call.outputs[2].values.assign(4, 0);
  return step(call)[0].values;
}

TEST(MuonOracle, TheRateGrowsByTheRootOfOutputsOverInputsWhereThereAreMoreOutputs) {
  const double update = kPolarOfRankOne / 2;  // of each of four equal elements
  for (const double p : step_along_threes(4, 1)) EXPECT_NEAR(p, -2 * 0.5 * update, 1e-9);
  for (const double p : step_along_threes(1, 4)) EXPECT_NEAR(p, -0.5 * update, 1e-9);
}

TEST(MuonOracle, DecayGrowsWithTheRate) {
  CallData call = call_of(kMuon, {{"N", 1}, {"S", 1}, {"R", 4}, {"C", 1}, {"M", 4}});
  call.input("muon_hyper").values = {0.5, 0, 0.75, 0.1};
  call.input("g_stack").values.assign(4, 3);
  call.outputs[0].values.assign(4, 8);
  call.outputs[2].values.assign(4, 0);
  const auto after = step(call);
  for (const double p : after[0].values)
    EXPECT_NEAR(p, 8 - 2 * 0.5 * (kPolarOfRankOne / 2 + 0.1 * 8), 1e-9);
}

TEST(MuonOracle, ASquareMatrixHasSecondMomentsOfItsRows) {
  CallData call = call_of(kMuon, {{"N", 1}, {"S", 1}, {"R", 2}, {"C", 2}, {"M", 2}});
  call.input("muon_hyper").values = {0.5, 0, 0.75, 0};
  call.input("g_stack").values = {6 / std::sqrt(2.0), 6 / std::sqrt(2.0), 0, 0};
  call.outputs[2].values = {0, 0.5};
  const auto second = step(call)[2].values;
  EXPECT_NEAR(second[0], 0.25 * kPolarOfRankOne * kPolarOfRankOne / 2, 1e-9);
  EXPECT_NEAR(second[1], 0.75 * 0.5, 1e-14);
}

}  // namespace
}  // namespace kl::target_test
