// Values worked out by hand, and the rules of each contract that no bound can state.
#include "target_call.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace kl::target_test {
namespace {

CallData call_of(const std::string& key, int operation, const Axes& axes) {
  return make_call(target(key).spec.operations[static_cast<size_t>(operation)], axes, 1);
}

TEST(RmsnormOracle, DividesThreeAndFourByTheirRootMeanSquare) {
  CallData call = call_of("rmsnorm", KL_FORWARD, {{"N", 1}, {"C", 2}});
  call.input("x").values = {3, 4};
  call.input("w").values = {1, 10};
  call.scalars = {0};
  const auto y = evaluate(target("rmsnorm").oracle, call, false)[0].values;
  EXPECT_NEAR(y[0], 3 / std::sqrt(12.5), 1e-15);
  EXPECT_NEAR(y[1], 40 / std::sqrt(12.5), 1e-14);
}

TEST(RmsnormOracle, EpsilonIsInsideTheRoot) {
  CallData call = call_of("rmsnorm", KL_FORWARD, {{"N", 1}, {"C", 1}});
  call.input("x").values = {3};
  call.input("w").values = {1};
  call.scalars = {16};
  EXPECT_DOUBLE_EQ(evaluate(target("rmsnorm").oracle, call, false)[0].values[0], 3.0 / 5.0);
}

TEST(RmsnormOracle, GradientIsOrthogonalToTheRowWithoutEpsilon) {
  CallData call = call_of("rmsnorm", KL_BACKWARD, {{"N", 1}, {"C", 5}});
  call.scalars = {0};
  const auto dx = evaluate(target("rmsnorm").oracle, call, false)[0].values;
  double dot = 0;
  for (size_t i = 0; i < 5; ++i) dot += dx[i] * call.input("x").values[i];
  EXPECT_NEAR(dot, 0, 1e-14);
}

TEST(RmsnormChampion, SurvivesRowsWhoseSquaresLeaveTheRangeOfFloat) {
  const TargetUnderTest& t = target("rmsnorm");
  const Axes axes{{"N", 5}, {"C", 70}};
  for (const double scale : {1e25, 1e-25}) {
    for (const int operation : {KL_FORWARD, KL_BACKWARD}) {
      CallData call = make_call(t.spec.operations[static_cast<size_t>(operation)], axes, 7);
      for (double& v : call.input("x").values) v = static_cast<float>(v * scale);
      call.scalars = {scale < 1 ? 0 : call.scalars[0]};
      std::vector<std::byte> saved;
      const auto expected = evaluate(t.oracle, call, true);
      expect_within_bound(t.spec, run(t.champion, call, saved), expected, call, axes, "scaled rows");
    }
  }
}

TEST(RmsnormKernels, AddToTheWeightGradientThatIsThere) {
  const TargetUnderTest& t = target("rmsnorm");
  CallData call = call_of("rmsnorm", KL_BACKWARD, {{"N", 9}, {"C", 33}});
  for (const auto* kernel : {&t.champion, &t.reference}) {
    std::vector<std::byte> saved;
    CallData zero = call, thousand = call;
    zero.outputs[1].values.assign(33, 0);
    thousand.outputs[1].values.assign(33, 1000);
    const auto from_zero = run(*kernel, zero, saved)[1], from_thousand = run(*kernel, thousand, saved)[1];
    for (size_t c = 0; c < 33; ++c) EXPECT_NEAR(from_thousand[c] - from_zero[c], 1000, 1e-3);
  }
}

TEST(RmsnormChampion, RefusesStridedRowsAndHalfPrecision) {
  const kl_kernel_table& table = target("rmsnorm").champion.library.table();
  int64_t shape[] = {4, 8}, strides[] = {16, 1};
  const DLTensor packed{nullptr, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  const DLTensor none{nullptr, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, nullptr, nullptr, 0};
  const double eps = 1e-6;
  const auto accepts = [&](DLTensor x) {
    const DLTensor inputs[] = {x, none};
    const kl_problem problem{KL_FORWARD, 2, 1, 1, inputs, &packed, &eps, 2, 0};
    return table.accepts(&problem).code;
  };
  EXPECT_EQ(accepts(packed), KL_OK);
  DLTensor strided = packed, half = packed;
  strided.strides = strides;
  half.dtype = {kDLFloat, 16, 1};
  EXPECT_EQ(accepts(strided), KL_UNSUPPORTED);
  EXPECT_EQ(accepts(half), KL_UNSUPPORTED);
}

TEST(ActivationOracle, SquaresThePositiveAndDropsTheNegative) {
  CallData call = call_of("activation_pointwise", KL_FORWARD, {{"N", 1}, {"C", 4}});
  call.input("h").values = {-2, 0, 0.5, 3};
  EXPECT_EQ(evaluate(target("activation_pointwise").oracle, call, false)[0].values,
            (std::vector<double>{0, 0, 0.25, 9}));
  CallData backward = call_of("activation_pointwise", KL_BACKWARD, {{"N", 1}, {"C", 4}});
  backward.input("h").values = {-2, 0, 0.5, 3};
  backward.input("dy").values = {1, 1, 1, -2};
  EXPECT_EQ(evaluate(target("activation_pointwise").oracle, backward, false)[0].values,
            (std::vector<double>{0, 0, 1, -12}));
}

TEST(ResidualBlendOracle, WeighsBothStreamsAndSumsTheirGradients) {
  CallData call = call_of("residual_blend", KL_FORWARD, {{"N", 1}, {"C", 2}});
  call.input("x").values = {3, -1};
  call.input("x0").values = {4, 8};
  call.input("lambda").values = {2};
  call.input("mu").values = {0.5};
  EXPECT_EQ(evaluate(target("residual_blend").oracle, call, false)[0].values,
            (std::vector<double>{8, 2}));
}

TEST(RotaryOracle, AQuarterTurnPutsTheSecondHalfFirst) {
  const Axes axes{{"B", 1}, {"T", 2}, {"H", 1}, {"K", 1}, {"D", 4}, {"D2", 2}};
  CallData call = call_of("rotary_embedding", KL_FORWARD, axes);
  call.input("q").values = {1, 2, 3, 4, 1, 2, 3, 4};
  call.input("cos").values = {1, 1, 0, 0};
  call.input("sin").values = {0, 0, 1, 1};
  EXPECT_EQ(evaluate(target("rotary_embedding").oracle, call, false)[0].values,
            (std::vector<double>{1, 2, 3, 4, 3, 4, -1, -2}));
}

TEST(LayernormOracle, CentresDividesAndShifts) {
  CallData call = call_of("layernorm", KL_FORWARD, {{"N", 1}, {"C", 2}});
  call.input("x").values = {1, 7};
  call.input("w").values = {10, 100};
  call.input("b").values = {0.5, 0};
  call.scalars = {16};  // inside the root: sqrt(9 + 16)
  const auto y = evaluate(target("layernorm").oracle, call, false)[0].values;
  EXPECT_DOUBLE_EQ(y[0], -5.5);
  EXPECT_DOUBLE_EQ(y[1], 60);
}

TEST(LossOracle, EqualLogitsCostTheLogarithmOfTheVocabulary) {
  CallData call = call_of("loss_prelude", KL_FORWARD, {{"N", 3}, {"V", 8}});
  call.input("logits").values.assign(24, 2.5);
  call.input("targets").values = {0, -1, 7};
  call.input("token_bytes").values = {1, 9, 9, 9, 9, 9, 9, 4};
  const auto out = evaluate(target("loss_prelude").oracle, call, false);
  EXPECT_NEAR(out[0].values[0], std::log(8.0), 1e-14);
  EXPECT_EQ(out[0].values[1], 0);
  EXPECT_NEAR(out[1].values[0], 2 * std::log(8.0), 1e-14);
  EXPECT_EQ(out[2].values[0], 5);
}

TEST(LossOracle, TheCapBoundsTheLossOfAHopelessTarget) {
  CallData call = call_of("loss_prelude", KL_FORWARD, {{"N", 1}, {"V", 2}});
  call.input("logits").values = {1000, -1000};
  call.input("targets").values = {1};
  const auto out = evaluate(target("loss_prelude").oracle, call, false);
  EXPECT_NEAR(out[0].values[0], 30 + std::log1p(std::exp(-30.0)), 1e-12);
}

TEST(LossOracle, GradientOfARowWithoutSaturationSumsToZero) {
  CallData call = call_of("loss_prelude", KL_BACKWARD, {{"N", 1}, {"V", 9}});
  call.scalars = {1e6};  // z' = z
  call.input("targets").values = {4};
  const auto dz = evaluate(target("loss_prelude").oracle, call, false)[0].values;
  double sum = 0;
  for (const double v : dz) sum += v;
  EXPECT_NEAR(sum, 0, 1e-9);
  EXPECT_LT(dz[4], 0);
}

TEST(LossKernels, IgnoredRowsCostNothingAndGetAZeroGradient) {
  const TargetUnderTest& t = target("loss_prelude");
  for (const auto* kernel : {&t.champion, &t.reference}) {
    std::vector<std::byte> saved;
    CallData forward = call_of("loss_prelude", KL_FORWARD, {{"N", 4}, {"V", 33}});
    forward.input("targets").values = {-1, -1, -1, -1};
    forward.input("logits").values[5] = std::nan("");
    const auto loss = run(*kernel, forward, saved);
    EXPECT_EQ(loss[0], std::vector<double>(4, 0.0));
    EXPECT_EQ(loss[1][0], 0);
    EXPECT_EQ(loss[2][0], 0);
    CallData backward = call_of("loss_prelude", KL_BACKWARD, {{"N", 4}, {"V", 33}});
    backward.input("targets").values = {-1, -1, -1, -1};
    EXPECT_EQ(run(*kernel, backward, saved)[0], std::vector<double>(4 * 33, 0.0));
  }
}

TEST(LossKernels, ATargetOutsideTheVocabularyIsNotANumber) {
  const TargetUnderTest& t = target("loss_prelude");
  for (const auto* kernel : {&t.champion, &t.reference}) {
    std::vector<std::byte> saved;
    CallData forward = call_of("loss_prelude", KL_FORWARD, {{"N", 2}, {"V", 17}});
    forward.input("targets").values = {17, 3};
    const auto loss = run(*kernel, forward, saved);
    EXPECT_TRUE(std::isnan(loss[0][0]));
    EXPECT_FALSE(std::isnan(loss[0][1]));
    EXPECT_TRUE(std::isnan(loss[1][0]));
    CallData backward = call_of("loss_prelude", KL_BACKWARD, {{"N", 2}, {"V", 17}});
    backward.input("targets").values = {-5, 3};
    const auto dz = run(*kernel, backward, saved)[0];
    EXPECT_TRUE(std::isnan(dz[0]));
    EXPECT_FALSE(std::isnan(dz[17]));
  }
}

TEST(LossChampion, WideCapsStayInRangeThroughTheRowMaximum) {
  const TargetUnderTest& t = target("loss_prelude");
  const Axes axes{{"N", 9}, {"V", 301}};
  for (const double softcap : {39.0, 41.0, 300.0}) {
    std::vector<std::byte> saved;
    CallData forward = make_call(t.spec.operations[0], axes, 21, softcap / 2);
    CallData backward = make_call(t.spec.operations[1], axes, 22);
    for (const char* name : {"logits", "targets"}) backward.input(name) = forward.input(name);
    forward.scalars = backward.scalars = {softcap};
    for (const CallData* call : {&forward, &backward})
      expect_within_bound(t.spec, run(t.champion, *call, saved), evaluate(t.oracle, *call, true), *call, axes,
                          "softcap " + std::to_string(softcap));
  }
}

TEST(LossChampion, LargeGradientsTakeTheStreamingPathAndAgreeWithTheSmallOne) {
  const TargetUnderTest& t = target("loss_prelude");
  const Axes small{{"N", 8}, {"V", 8192}}, large{{"N", 800}, {"V", 8192}};
  CallData part = make_call(t.spec.operations[0], small, 31), whole = make_call(t.spec.operations[0], large, 32);
  CallData part_back = make_call(t.spec.operations[1], small, 33), whole_back = make_call(t.spec.operations[1], large, 34);
  const auto repeat = [](const Array& from, Array& to) {
    for (size_t i = 0; i < to.values.size(); ++i) to.values[i] = from.values[i % from.values.size()];
  };
  for (const char* name : {"logits", "targets"}) {
    repeat(part.input(name), whole.input(name));
    part_back.input(name) = part.input(name);
    whole_back.input(name) = whole.input(name);
  }
  whole_back.input("g") = part_back.input("g");
  std::vector<std::byte> part_saved, whole_saved;
  run(t.champion, part, part_saved);
  run(t.champion, whole, whole_saved);
  const auto expected = run(t.champion, part_back, part_saved)[0];
  const auto got = run(t.champion, whole_back, whole_saved)[0];
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i % expected.size()]) << i;
}

}  // namespace
}  // namespace kl::target_test
