// What must hold for every target: oracles agree with themselves, kernels with oracles.
#include "target_call.hpp"

#include <lab/verify/tensor_data.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace kl::target_test {
namespace {

class EveryTarget : public testing::TestWithParam<std::string> {
 protected:
  const TargetUnderTest& under_test() const { return target(GetParam()); }
};
class TargetWithNonFiniteInputs : public EveryTarget {};

std::string name_of(const CaseShape& shape, const CallData& call, double scale) {
  std::string name = fmt::format("{} {} scale {}", call.spec->name, shape.dtype, scale);
  for (const auto& [axis, length] : shape.axes) name += fmt::format(" {}={}", axis, length);
  return name;
}

TEST_P(EveryTarget, KernelsAgreeWithTheOracleThroughTheSavedBlob) {
  const TargetUnderTest& t = under_test();
  for (const CaseShape& shape : t.spec.quick)
    for (const double scale : {1.0, 1e-3, 50.0})
      for (const auto& absent : presences(t.spec.operations.front())) {
        std::vector<std::byte> champion_saved, reference_saved;
        for (const CallData& call : draw_calls(t, shape, 1, scale, absent)) {
          const auto expected = evaluate(t.oracle, call, true);
          const std::string what = name_of(shape, call, scale);
          expect_within_bound(t.spec, run(t.champion, call, champion_saved), expected, call,
                              shape.axes, "champion " + what);
          expect_within_bound(t.spec, run(t.reference, call, reference_saved), expected, call,
                              shape.axes, "reference " + what);
          if (HasFatalFailure()) return;
        }
      }
}

// Of the full list, so that there is work for several threads.
const CaseShape& largest_shape(const Target& target) {
  const auto size = [&](const CaseShape& shape) {
    size_t elements = 0;
    for (const OperationSpec& operation : target.operations)
      for (const Array& input : make_call(operation, shape.axes, 1).inputs)
        elements += input.values.size();
    return elements;
  };
  return *std::max_element(
      target.full.begin(), target.full.end(),
      [&](const CaseShape& a, const CaseShape& b) { return size(a) < size(b); });
}

TEST_P(EveryTarget, ChampionGivesTheSameBitsTwiceAndWithinTheBoundOnAnyNumberOfThreads) {
  const TargetUnderTest& t = under_test();
  const CaseShape& shape = largest_shape(t.spec);
  const std::vector<CallData> calls = draw_calls(t, shape, 1);
  std::vector<std::vector<OracleOutput>> expected;
  for (const CallData& call : calls) expected.push_back(evaluate(t.oracle, call, true));
  for (const int threads : {1, 2, 3, 5}) {
    std::vector<std::byte> saved;
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto got = run(t.champion, calls[i], saved, threads);
      EXPECT_EQ(got, run(t.champion, calls[i], saved, threads));
      expect_within_bound(t.spec, got, expected[i], calls[i], shape.axes,
                          fmt::format("{} threads", threads));
    }
  }
}

TEST_P(EveryTarget, BoundsAreNeitherUnderTheValueNorMeaninglesslyWide) {
  const TargetUnderTest& t = under_test();
  const CaseShape& shape = t.spec.quick.back();
  std::map<std::string, std::pair<double, double>> sums;  // of |value| and of bounds
  for (uint64_t seed = 0; seed < 8; ++seed)               // one number may be near 0 by luck
    for (const CallData& call : draw_calls(t, shape, seed)) {
      const auto plain = evaluate(t.oracle, call, false);
      const auto tracked = evaluate(t.oracle, call, true);
      for (size_t o = 0; o < tracked.size(); ++o) {
        const Bound bound = bound_of(t.spec, call, o, shape.axes);
        auto& [values, bounds] = sums[call.spec->name + " " + call.spec->outputs[o].name];
        for (size_t i = 0; i < tracked[o].values.size(); ++i) {
          const double value = tracked[o].values[i], terms = tracked[o].terms[i];
          EXPECT_EQ(plain[o].values[i], value);
          EXPECT_GE(terms, std::fabs(value) * (1 - 1e-12));
          values += std::fabs(value);
          bounds += bound(value, terms);
        }
      }
    }
  for (const auto& [output, sum] : sums) EXPECT_LE(sum.second, 0.05 * sum.first) << output;
}

TEST_P(TargetWithNonFiniteInputs, SpreadsThemAsItsOracleDoes) {
  const TargetUnderTest& t = under_test();
  const CaseShape& shape = t.spec.quick[3];
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double bad : {std::nan(""), kInfinity, -kInfinity}) {
    for (const auto* kernel : {&t.champion, &t.reference}) {
      std::vector<std::byte> saved;
      const auto spoil = [&](CallData& first) { first.inputs[0].values[2] = bad; };
      for (const CallData& call : draw_calls(t, shape, 4, 1, {}, spoil)) {
        const auto expected = evaluate(t.oracle, call, true);
        expect_within_bound(t.spec, run(*kernel, call, saved), expected, call, shape.axes,
                            fmt::format("{} with {}", call.spec->name, bad));
      }
    }
  }
}

// Read or added to by the rows that indices name.
bool is_looked_up(const std::string& tensor) {
  return tensor == "table" || tensor == "dtable" || tensor == "token_bytes";
}
int64_t count_of_indices(const CallData& call) {
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (call.spec->inputs[i].kind == InputKind::index) return element_count(call.inputs[i].shape);
  return 0;
}

TEST_P(EveryTarget, CostCountsEveryTensorOnceAndOfWhatIsLookedUpNoMoreThanIsNamed) {
  const TargetUnderTest& t = under_test();
  for (const OperationSpec& operation : t.spec.operations) {
    const CaseShape& shape = t.spec.quick.back();
    const CallData call = make_call(operation, shape.axes, 3, 1, {}, shape.dtype);
    std::vector<DLTensor> inputs, outputs;
    double total = 0;
    const auto view = [&](const Array& array, const TensorSpec& spec) {
      const DLDataType type = type_of(spec, shape.dtype);
      auto bytes = static_cast<double>(array.values.size() * element_bytes(type));
      if (is_looked_up(spec.name) && count_of_indices(call) < array.shape[0])
        bytes *= static_cast<double>(count_of_indices(call)) / static_cast<double>(array.shape[0]);
      total += spec.mode == OutputMode::write ? bytes : 2 * bytes;
      return DLTensor{nullptr,
                      {kDLCPU, 0},
                      static_cast<int32_t>(array.shape.size()),
                      type,
                      const_cast<int64_t*>(array.shape.data()),
                      nullptr,
                      0};
    };
    for (size_t i = 0; i < call.inputs.size(); ++i)
      inputs.push_back(view(call.inputs[i], operation.inputs[i]));
    for (size_t i = 0; i < call.outputs.size(); ++i)
      outputs.push_back(view(call.outputs[i], operation.outputs[i]));
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
    EXPECT_NEAR(cost.bytes_read + cost.bytes_written, total, 1e-9 * total) << operation.name;
    const bool sums = std::any_of(operation.outputs.begin(), operation.outputs.end(),
                                  [](const TensorSpec& output) { return output.terms != "1"; });
    EXPECT_GE(cost.flops, sums ? 1 : 0) << operation.name;
  }
}

std::vector<std::string> keys(bool (*wanted)(const Target&)) {
  std::vector<std::string> keys;
  for (const Target& target : catalogue().targets())
    if (wanted(target)) keys.push_back(target.key);
  return keys;
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget,
                         testing::ValuesIn(keys([](const Target&) { return true; })),
                         [](const auto& param) { return param.param; });
INSTANTIATE_TEST_SUITE_P(Targets, TargetWithNonFiniteInputs,
                         testing::ValuesIn(keys([](const Target& target) {
                           return target.non_finite;
                         })),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace kl::target_test
