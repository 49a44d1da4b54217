#include <trainer/test_model.hpp>

#include <trainer/blas.hpp>

#include <gtest/gtest.h>

namespace kl::trainer {
namespace {

// Loss and gradient of the tiny model in R with plain seams.
template <class R>
struct TinyModel {
  explicit TinyModel(const Config& c, int threads = 1)
      : config(c), layout(c), seams(c), model(c, layout, seams, 2), batch(tiny_batch(c)),
        weights(lively_weights<R>(layout)), gradient(weights.size()) {
    set_threads(threads);
  }
  double loss() { return model.forward(weights.data(), batch.tokens.data(), batch.targets.data()); }
  void differentiate() {
    loss();
    const R valid = R(config.tokens() - 1);  // one target is ignored
    model.backward(weights.data(), gradient.data(), batch.tokens.data(), batch.targets.data(), 1 / valid);
  }
  Config config;
  Layout layout;
  PlainSeams<R> seams;
  Model<R> model;
  Batch batch;
  std::vector<R> weights, gradient;
};

void expect_gradients_match_finite_differences(const Config& config) {
  TinyModel<double> tiny(config);
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
                  1e-6 * std::max(largest, 1e-3)) << p.name << "[" << i << "]";
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

TEST(Model, FloatAgreesWithDouble) {
  TinyModel<double> exact(tiny_config());
  TinyModel<float> single(tiny_config());
  exact.differentiate();
  single.differentiate();
  EXPECT_NEAR(exact.loss(), single.loss(), 1e-5);
  double dot = 0, a = 0, b = 0;
  for (size_t i = 0; i < exact.gradient.size(); ++i) {
    dot += exact.gradient[i] * static_cast<double>(single.gradient[i]);
    a += exact.gradient[i] * exact.gradient[i];
    b += static_cast<double>(single.gradient[i]) * static_cast<double>(single.gradient[i]);
  }
  EXPECT_GT(dot / std::sqrt(a * b), 1 - 1e-9);
}

TEST(Model, FreshWeightsGiveTheLossOfAUniformGuess) {
  TinyModel<float> tiny(tiny_config());
  initialise(tiny.layout, tiny.config, tiny.weights);
  EXPECT_NEAR(tiny.loss(), std::log(23.0), 0.01);
}

TEST(Model, ATokenNeverSeesLaterTokens) {
  TinyModel<double> tiny(tiny_config());
  tiny.loss();
  const std::vector<double> before(tiny.model.logits(), tiny.model.logits() + 7 * 23);
  tiny.batch.tokens[5] = (tiny.batch.tokens[5] + 1) % 23;
  tiny.loss();
  for (size_t i = 0; i < 5 * 23; ++i) EXPECT_EQ(before[i], tiny.model.logits()[i]) << i;
  EXPECT_NE(before[5 * 23], tiny.model.logits()[5 * 23]);
}

TEST(Model, RepeatsToTheBit) {
  TinyModel<float> one(tiny_config(), 2), two(tiny_config(), 2);
  one.differentiate();
  two.differentiate();
  EXPECT_EQ(one.gradient, two.gradient);
}

}  // namespace
}  // namespace kl::trainer
