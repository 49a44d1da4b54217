// A fused target is its parts, one after the other.
#include "target_call.hpp"

#include <gtest/gtest.h>

namespace kl::target_test {
namespace {

CallData forward_of(const std::string& key, const Axes& axes) {
  return make_call(target(key).spec.operations[KL_FORWARD], axes, 17);
}
std::vector<std::vector<double>> results_of(const std::string& key, const CallData& call) {
  std::vector<std::vector<double>> results;
  for (auto& output : evaluate(target(key).oracle, call, false)) results.push_back(output.values);
  return results;
}
void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-13) << i;
}

TEST(Compositions, RopeQkFusedIsRotaryEmbeddingThenQkRmsnorm) {
  const Axes axes{{"B", 2}, {"T", 3}, {"H", 4}, {"K", 2}, {"D", 6}, {"D2", 3}};
  CallData rotary = forward_of("rotary_embedding", axes), norm = forward_of("qk_rmsnorm", axes),
           fused = forward_of("rope_qk_fused", axes);
  for (const char* name : {"q", "k", "cos", "sin"}) fused.input(name) = rotary.input(name);
  const auto turned = results_of("rotary_embedding", rotary);
  norm.input("q").values = turned[0];
  norm.input("k").values = turned[1];
  const auto parts = results_of("qk_rmsnorm", norm), whole = results_of("rope_qk_fused", fused);
  expect_near(whole[0], parts[0]);
  expect_near(whole[1], parts[1]);
}

TEST(Compositions, ResidualRmsnormIsLaunchFusionThenRmsnorm) {
  const Axes axes{{"N", 3}, {"C", 5}};
  CallData add = forward_of("launch_fusion", axes), fused = forward_of("residual_rmsnorm", axes);
  CallData norm = make_call(target("rmsnorm").spec.operations[KL_FORWARD], axes, 17, 1, {"w"});
  for (const char* name : {"residual", "update"}) fused.input(name) = add.input(name);
  const auto sum = results_of("launch_fusion", add)[0];
  norm.input("x").values = sum;
  const auto whole = results_of("residual_rmsnorm", fused);
  expect_near(whole[0], sum);
  expect_near(whole[1], results_of("rmsnorm", norm)[0]);
}

TEST(Compositions, CrossEntropyFullIsAProductThenLossPrelude) {
  const Axes axes{{"N", 4}, {"C", 3}, {"V", 7}};
  CallData fused = forward_of("cross_entropy_full", axes), loss = forward_of("loss_prelude", axes);
  for (const char* name : {"targets", "token_bytes"}) loss.input(name) = fused.input(name);
  const auto &x = fused.input("x").values, &w = fused.input("w").values;
  auto& logits = loss.input("logits").values;
  for (size_t n = 0; n < 4; ++n)
    for (size_t v = 0; v < 7; ++v) {
      logits[n * 7 + v] = 0;
      for (size_t c = 0; c < 3; ++c) logits[n * 7 + v] += x[n * 3 + c] * w[v * 3 + c];
    }
  const auto parts = results_of("loss_prelude", loss),
             whole = results_of("cross_entropy_full", fused);
  for (size_t o = 0; o < 3; ++o) expect_near(whole[o], parts[o]);
}

TEST(Compositions, LossPreludeIsTheSoftcapThenCrossEntropyPrelude) {
  const Axes axes{{"N", 9}, {"V", 7}};
  CallData loss = forward_of("loss_prelude", axes), softcap = forward_of("logits_softcap", axes),
           prelude = forward_of("cross_entropy_prelude", axes);
  softcap.input("z").values = loss.input("logits").values;
  prelude.input("targets") = loss.input("targets");
  prelude.input("z").values = results_of("logits_softcap", softcap)[0];
  const auto parts = results_of("cross_entropy_prelude", prelude);
  std::vector<double> nll;
  for (size_t n = 0; n < 9; ++n) nll.push_back(parts[1][n] - parts[2][n]);
  expect_near(results_of("loss_prelude", loss)[0], nll);
}

}  // namespace
}  // namespace kl::target_test
