#include <trainer/test_model.hpp>

#include <trainer/blas.hpp>

#include <gtest/gtest.h>

namespace kl::trainer {
namespace {

// Loss and gradient of the tiny model in double, its seams held by the oracles.
struct TinyModel {
  explicit TinyModel(const Config& c)
      : config(c),
        layout(c),
        seams(c),
        model(c, layout, seams, {}),
        batch(tiny_batch(c)),
        weights(lively_weights<double>(layout)),
        gradient(weights.size()) {
    set_threads(1);
  }
  double loss() { return model.forward(weights.data(), batch.tokens.data(), batch.targets.data()); }
  void differentiate() {
    loss();
    const auto valid = static_cast<double>(config.tokens() - 1);  // one target is ignored
    model.backward(weights.data(), gradient.data(), batch.tokens.data(), batch.targets.data(),
                   1 / valid);
  }
  Config config;
  Layout layout;
  OracleSeams seams;
  Model<double> model;
  Batch batch;
  std::vector<double> weights, gradient;
};

void expect_gradients_match_finite_differences(const Config& config) {
  TinyModel tiny(config);
  tiny.differentiate();
  const double h = 1e-5;
  for (const Parameter& p : tiny.layout.parameters()) {
    double largest = 0;
    for (int64_t i = 0; i < p.size; ++i)
      largest = std::max(largest, std::fabs(tiny.gradient[static_cast<size_t>(p.offset + i)]));
    EXPECT_GT(largest, 1e-7) << p.name << " has no gradient";
    // The largest element and a spread of others.
    const int64_t stride = std::max<int64_t>(1, p.size / 13);
    for (int64_t i = 0; i < p.size; i += stride) {
      double& w = tiny.weights[static_cast<size_t>(p.offset + i)];
      const double kept = w;
      w = kept + h;
      const double above = tiny.loss();
      w = kept - h;
      const double below = tiny.loss();
      w = kept;
      const double numeric = (above - below) / (2 * h);
      EXPECT_NEAR(tiny.gradient[static_cast<size_t>(p.offset + i)], numeric,
                  1e-6 * std::max(largest, 1e-3))
          << p.name << "[" << i << "]";
    }
  }
}

TEST(Model, GradientsOfEveryParameterMatchFiniteDifferences) {
  expect_gradients_match_finite_differences(tiny_config());
}

TEST(Model, GradientsMatchWithAsManyKeyHeadsAsHeadsAndAnEvenNumberOfLayers) {
  Config config = tiny_config();
  config.kv_heads = 0;
  config.layers = 2;
  config.softcap = 2;  // deep in the curved part of tanh
  expect_gradients_match_finite_differences(config);
}

TEST(Model, FreshWeightsGiveTheLossOfAUniformGuess) {
  TinyModel tiny(tiny_config());
  std::vector<float> fresh(tiny.weights.size());
  initialise(tiny.layout, tiny.config, fresh);
  std::copy(fresh.begin(), fresh.end(), tiny.weights.begin());
  EXPECT_NEAR(tiny.loss(), std::log(23.0), 0.01);
}

TEST(Model, ATokenNeverSeesLaterTokens) {
  TinyModel tiny(tiny_config());
  tiny.loss();
  const std::vector<double> before(tiny.model.logits(), tiny.model.logits() + 7 * 23);
  tiny.batch.tokens[5] = (tiny.batch.tokens[5] + 1) % 23;
  tiny.loss();
  for (size_t i = 0; i < 5 * 23; ++i) EXPECT_EQ(before[i], tiny.model.logits()[i]) << i;
  EXPECT_NE(before[5 * 23], tiny.model.logits()[5 * 23]);
}

TEST(Model, EveryPathThroughTheRegionsIsTheSameFunction) {
  TinyModel tiny(tiny_config());
  tiny.differentiate();
  const double loss = tiny.loss();
  for (const auto& path : other_paths()) {
    TinyModel other(tiny_config_on(path));
    other.differentiate();
    EXPECT_NEAR(other.loss(), loss, 1e-12) << path.front();
    double largest = 0;
    for (size_t i = 0; i < tiny.gradient.size(); ++i)
      largest = std::max(largest, std::fabs(other.gradient[i] - tiny.gradient[i]));
    EXPECT_LT(largest, 1e-12) << path.front();
  }
}

TEST(Model, GradientsMatchOnEveryPathThroughTheRegions) {
  for (const auto& path : other_paths()) {
    Config config = tiny_config_on(path);
    config.layers = 2;
    expect_gradients_match_finite_differences(config);
  }
}

}  // namespace
}  // namespace kl::trainer
