#include <trainer/adamw.hpp>

#include <gtest/gtest.h>

namespace kl::trainer {
namespace {

Config small() {
  Config c;
  c.vocab = 320;
  c.layers = 1;
  c.width = 32;
  c.head_dim = 16;
  return c;
}

TEST(AdamW, TwoStepsByHand) {
  const Config config = small();
  const Layout layout(config);
  std::vector<float> weights(static_cast<size_t>(layout.size()), 1.0f), gradients(weights.size(), 0.0f);
  AdamW adam(config, layout);
  const size_t q = static_cast<size_t>(layout.find("layers.0.q").offset);
  gradients[q] = 0.5f;
  gradients[q + 1] = -4.0f;
  EXPECT_NEAR(adam.step(weights.data(), gradients.data(), 1), std::sqrt(0.25 + 16), 1e-6);
  // The first step moves by the rate, whatever the gradient's size: m/(1-b1) = g, sqrt(v/(1-b2)) = |g|.
  EXPECT_NEAR(weights[q], 1 - config.lr_matrix, 1e-7);
  EXPECT_NEAR(weights[q + 1], 1 + config.lr_matrix, 1e-7);
  EXPECT_EQ(weights[q + 2], 1.0f);
  EXPECT_EQ(gradients[q], 0.0f);
  gradients[q] = 1.0f;
  adam.step(weights.data(), gradients.data(), 0.5);
  const double m = (0.8 * (0.2 * 0.5) + 0.2 * 1) / (1 - 0.8 * 0.8);
  const double v = (0.95 * (0.05 * 0.25) + 0.05 * 1) / (1 - 0.95 * 0.95);
  EXPECT_NEAR(weights[q], 1 - config.lr_matrix - 0.5 * config.lr_matrix * m / std::sqrt(v), 1e-7);
}

TEST(AdamW, GroupsHaveTheirRatesAndMoments) {
  const Config config = small();
  const double width = std::pow(32.0 / 768, -0.5);
  EXPECT_NEAR(adam_setting(config, Group::head).rate, 0.004 * width, 1e-12);
  EXPECT_NEAR(adam_setting(config, Group::embedding).rate, 0.6 * width, 1e-12);
  EXPECT_EQ(adam_setting(config, Group::lambda).rate, 0.005);
  EXPECT_EQ(adam_setting(config, Group::lambda).beta1, 0.8);
  EXPECT_EQ(adam_setting(config, Group::mu).rate, 0.5);
  EXPECT_EQ(adam_setting(config, Group::mu).beta1, 0.96);
}

TEST(Schedule, IsFlatThenFallsToZeroOverTheLastHalf) {
  EXPECT_EQ(schedule(0, 0.5), 1);
  EXPECT_EQ(schedule(0.5, 0.5), 1);
  EXPECT_DOUBLE_EQ(schedule(0.75, 0.5), 0.5);
  EXPECT_DOUBLE_EQ(schedule(0.9, 0.5), 0.2);
  EXPECT_EQ(schedule(1, 0.5), 0);
  EXPECT_EQ(schedule(0.9, 0), 1);
}

}  // namespace
}  // namespace kl::trainer
