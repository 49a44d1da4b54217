// What must hold for every target: oracles agree with themselves, kernels with oracles.
#include "target_call.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kl::target_test {
namespace {

class EveryTarget : public testing::TestWithParam<std::string> {
 protected:
  const TargetUnderTest& under_test() const { return target(GetParam()); }
  std::vector<std::vector<std::string>> presences() const {
    return GetParam() == "rmsnorm" ? std::vector<std::vector<std::string>>{{}, {"w"}}
                                   : std::vector<std::vector<std::string>>{{}};
  }
};

std::string name_of(const Axes& axes, int operation, double scale) {
  std::string name = fmt::format("operation {} scale {}", operation, scale);
  for (const auto& [axis, length] : axes) name += fmt::format(" {}={}", axis, length);
  return name;
}

// Backward reads forward's inputs where it lists them again.
void share_inputs(const CallData& forward, CallData& backward) {
  for (size_t i = 0; i < forward.spec->inputs.size(); ++i)
    for (size_t j = 0; j < backward.spec->inputs.size(); ++j)
      if (forward.spec->inputs[i].name == backward.spec->inputs[j].name)
        backward.inputs[j] = forward.inputs[i];
}

TEST_P(EveryTarget, KernelsAgreeWithTheOracleThroughTheSavedBlob) {
  const TargetUnderTest& t = under_test();
  for (const auto* kernel : {&t.champion, &t.reference}) {
    const std::string who = kernel == &t.champion ? "champion " : "reference ";
    for (const CaseShape& shape : t.spec.quick) {
      for (const double scale : {1.0, 1e-3, 50.0}) {
        for (const auto& absent : presences()) {
          std::vector<std::byte> saved;
          CallData forward = make_call(t.spec.operations[0], shape.axes, 1, scale, absent);
          CallData backward = make_call(t.spec.operations[1], shape.axes, 2, scale, absent);
          share_inputs(forward, backward);
          for (const CallData* call : {&forward, &backward}) {
            const auto got = run(*kernel, *call, saved);
            expect_within_bound(got, evaluate(t.oracle, *call, true), *call, shape.axes,
                                who + name_of(shape.axes, call->operation, scale));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(EveryTarget, ChampionGivesTheSameBitsTwiceAndWithinTheBoundOnAnyNumberOfThreads) {
  const TargetUnderTest& t = under_test();
  const Axes axes = GetParam() == "loss_prelude" ? Axes{{"N", 37}, {"V", 2011}}
                                                 : Axes{{"N", 203}, {"C", 1003}};
  for (const int threads : {1, 2, 3, 5}) {
    std::vector<std::byte> saved;
    CallData forward = make_call(t.spec.operations[0], axes, 1);
    CallData backward = make_call(t.spec.operations[1], axes, 2);
    share_inputs(forward, backward);
    for (const CallData* call : {&forward, &backward}) {
      const auto got = run(t.champion, *call, saved, threads);
      EXPECT_EQ(got, run(t.champion, *call, saved, threads));
      expect_within_bound(got, evaluate(t.oracle, *call, true), *call, axes,
                          fmt::format("{} threads", threads));
    }
  }
}

TEST_P(EveryTarget, BoundsAreNeitherUnderTheValueNorMeaninglesslyWide) {
  const TargetUnderTest& t = under_test();
  for (const OperationSpec& operation : t.spec.operations) {
    const CallData call = make_call(operation, t.spec.quick.back().axes, 3);
    const auto plain = evaluate(t.oracle, call, false);
    const auto tracked = evaluate(t.oracle, call, true);
    for (size_t o = 0; o < tracked.size(); ++o) {
      double value_sum = 0, terms_sum = 0;
      for (size_t i = 0; i < tracked[o].values.size(); ++i) {
        EXPECT_EQ(plain[o].values[i], tracked[o].values[i]);
        EXPECT_GE(tracked[o].terms[i], std::fabs(tracked[o].values[i]) * (1 - 1e-12));
        value_sum += std::fabs(tracked[o].values[i]);
        terms_sum += tracked[o].terms[i];
      }
      EXPECT_LE(terms_sum, 50 * value_sum) << operation.outputs[o].name;
    }
  }
}

TEST_P(EveryTarget, NonFiniteInputsSpreadAsInTheOracle) {
  const TargetUnderTest& t = under_test();
  const Axes axes = t.spec.quick[3].axes;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double bad : {std::nan(""), kInfinity, -kInfinity}) {
    for (const auto* kernel : {&t.champion, &t.reference}) {
      std::vector<std::byte> saved;
      CallData forward = make_call(t.spec.operations[0], axes, 4);
      CallData backward = make_call(t.spec.operations[1], axes, 5);
      forward.inputs[0].values[2] = bad;  // x, h and logits come first
      share_inputs(forward, backward);
      for (const CallData* call : {&forward, &backward}) {
        const auto expected = evaluate(t.oracle, *call, true);
        expect_within_bound(run(*kernel, *call, saved), expected, *call, axes,
                            fmt::format("operation {} with {}", call->operation, bad));
      }
    }
  }
}

TEST_P(EveryTarget, CostCountsEveryTensorOnce) {
  const TargetUnderTest& t = under_test();
  for (const OperationSpec& operation : t.spec.operations) {
    std::vector<std::vector<int64_t>> shapes;
    std::vector<DLTensor> inputs, outputs;
    const CallData call = make_call(operation, t.spec.quick.back().axes, 3);
    double total = 0;
    const auto view = [&](const Array& array, const TensorSpec& spec) {
      const uint8_t bits = spec.dtype == "f64" ? 64 : 32;
      total += static_cast<double>(array.values.size()) * bits / 8;
      if (spec.mode == OutputMode::accumulate) total += static_cast<double>(array.values.size()) * 4;
      return DLTensor{nullptr,
                      {kDLCPU, 0},
                      static_cast<int32_t>(array.shape.size()),
                      {static_cast<uint8_t>(spec.dtype == "i32" ? kDLInt : kDLFloat), bits, 1},
                      const_cast<int64_t*>(array.shape.data()),
                      nullptr,
                      0};
    };
    for (size_t i = 0; i < call.inputs.size(); ++i) inputs.push_back(view(call.inputs[i], operation.inputs[i]));
    for (size_t i = 0; i < call.outputs.size(); ++i) outputs.push_back(view(call.outputs[i], operation.outputs[i]));
    const kl_problem problem{operation.index,
                             static_cast<int32_t>(inputs.size()),
                             static_cast<int32_t>(outputs.size()),
                             static_cast<int32_t>(call.scalars.size()),
                             inputs.data(),
                             outputs.data(),
                             call.scalars.data(),
                             1,
                             0};
    oracle::Cost cost{};
    ASSERT_EQ(t.oracle.table().cost(&problem, &cost), 0);
    // token_bytes is looked up once per row, not read whole.
    EXPECT_NEAR(cost.bytes_read + cost.bytes_written, total, GetParam() == "loss_prelude" ? 4096 : 0);
    EXPECT_GT(cost.flops, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget,
                         testing::Values("rmsnorm", "activation_pointwise", "loss_prelude"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace kl::target_test
