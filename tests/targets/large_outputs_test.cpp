// Outputs larger than the caches, which champions write past them: what is said of many rows is what is said of a few.
#include "target_call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <ostream>

namespace kl::target_test {
namespace {

constexpr int64_t kLargeBytes = int64_t{52} << 20;  // champions stream from 48 MiB on

struct Rows {
  std::string target;
  std::string along;  // the axis of independent rows: the first one of what has it
  Axes axes;          // of a few of them
  std::string dtype = "f32";
};

void PrintTo(const Rows& rows, std::ostream* out) { *out << rows.target; }

const Rows kRows[] = {
    {"activation_pointwise", "N", {{"N", 64}, {"C", 256}}},
    {"cross_entropy_prelude", "N", {{"N", 16}, {"V", 2048}}},
    {"data_movement", "B", {{"B", 1}, {"T", 16}, {"H", 2}, {"D", 128}, {"E", 256}}},
    {"launch_fusion", "N", {{"N", 64}, {"C", 256}}},
    {"layernorm", "N", {{"N", 64}, {"C", 256}}},
    {"logits_softcap", "N", {{"N", 16}, {"V", 2048}}},
    {"loss_logits_cast_softcap", "N", {{"N", 16}, {"V", 2048}}, "bf16"},
    {"loss_prelude", "N", {{"N", 16}, {"V", 2048}}},
    {"proj_head_reshape", "B", {{"B", 1}, {"T", 16}, {"H", 2}, {"D", 128}}},
    {"qk_rmsnorm", "B", {{"B", 1}, {"T", 16}, {"H", 2}, {"K", 2}, {"D", 128}}},
    {"residual_blend", "N", {{"N", 64}, {"C", 256}}},
    {"residual_rmsnorm", "N", {{"N", 64}, {"C", 256}}},
    {"rmsnorm", "N", {{"N", 64}, {"C", 256}}},
    {"rope_qk_fused", "B", {{"B", 1}, {"T", 16}, {"H", 2}, {"K", 2}, {"D", 128}, {"D2", 64}}},
    {"rotary_embedding", "B", {{"B", 1}, {"T", 16}, {"H", 2}, {"K", 2}, {"D", 128}, {"D2", 64}}},
    {"softmax", "N", {{"N", 2}, {"T", 16}, {"K", 512}}},
    {"value_embed_gate", "N", {{"N", 64}, {"K", 2}, {"D", 128}}},
};

bool has_rows(const TensorSpec& tensor, const Array& array, const std::string& along) {
  return !array.shape.empty() && !tensor.axes.empty() && tensor.axes.front() == along;
}

void repeat(Array& array, int64_t times) {
  const std::vector<double> once = array.values;
  array.values.reserve(once.size() * static_cast<size_t>(times));
  for (int64_t i = 1; i < times; ++i) array.values.insert(array.values.end(), once.begin(), once.end());
  array.shape.front() *= times;
}

CallData repeated(CallData call, const std::string& along, int64_t times) {
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (has_rows(call.spec->inputs[i], call.inputs[i], along)) repeat(call.inputs[i], times);
  for (size_t i = 0; i < call.outputs.size(); ++i)
    if (has_rows(call.spec->outputs[i], call.outputs[i], along)) repeat(call.outputs[i], times);
  return call;
}

int64_t largest_output(const std::vector<CallData>& calls) {
  size_t largest = 0;
  for (const CallData& call : calls)
    for (const Array& output : call.outputs) largest = std::max(largest, output.values.size());
  return static_cast<int64_t>(largest);
}

class LargeOutputs : public testing::TestWithParam<Rows> {};

TEST_P(LargeOutputs, AreThoseOfTheirRows) {
  const Rows& rows = GetParam();
  const TargetUnderTest& t = target(rows.target);
  const auto calls = draw_calls(t, {.axes = rows.axes, .dtype = rows.dtype}, 29);
  const int64_t times = kLargeBytes / (largest_output(calls) * int64_t{sizeof(float)}) + 1;
  std::vector<std::byte> few_saved, many_saved;
  for (const CallData& few : calls) {
    const CallData many = repeated(few, rows.along, times);
    const auto expected = run(t.champion, few, few_saved), got = run(t.champion, many, many_saved);
    for (size_t o = 0; o < got.size(); ++o) {
      if (!has_rows(few.spec->outputs[o], few.outputs[o], rows.along)) continue;  // a sum over rows
      ASSERT_EQ(got[o].size(), expected[o].size() * static_cast<size_t>(times));
      size_t wrong = 0;
      for (size_t i = 0; i < got[o].size(); ++i)
        wrong += std::bit_cast<uint64_t>(got[o][i]) != std::bit_cast<uint64_t>(expected[o][i % expected[o].size()]);
      EXPECT_EQ(wrong, 0u) << few.spec->outputs[o].name << " of " << got[o].size();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, LargeOutputs, testing::ValuesIn(kRows),
                         [](const auto& instance) { return instance.param.target; });

}  // namespace
}  // namespace kl::target_test
