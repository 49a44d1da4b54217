#include <trainer/optimiser.hpp>

#include <trainer/seam_set.hpp>
#include <trainer/test_libraries.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace kl::trainer {
namespace {

Config small() {
  Config c;
  c.vocab = 320;
  c.layers = 2;
  c.width = 32;
  c.head_dim = 16;
  c.sequence = 8;
  c.rows = 1;
  return c;
}

struct Update {
  explicit Update(const Config& c)
      : config(c),
        layout(c),
        seams(std::move(*SeamSet::open(c, test_champions(c), 1))),
        optimiser(config, layout, *seams),
        weights(static_cast<size_t>(layout.size()), 1.0f),
        gradients(weights.size(), 0.0f) {}
  double step(double progress) { return optimiser.step(weights.data(), gradients.data(), progress); }
  size_t at(const char* name) const { return static_cast<size_t>(layout.find(name).offset); }
  Config config;
  Layout layout;
  std::unique_ptr<SeamSet> seams;
  Optimiser optimiser;
  std::vector<float> weights, gradients;
};

TEST(Optimiser, TwoAdamWStepsByHand) {
  Update update(small());
  const size_t q = update.at("layers.0.q");
  const double rate = update.config.lr_matrix;
  update.gradients[q] = 0.5f;
  update.gradients[q + 1] = -4.0f;
  EXPECT_NEAR(update.step(0), std::sqrt(0.25 + 16), 1e-6);
  // The first step moves by the rate, whatever the gradient's size: m/(1-b1) = g, sqrt(v/(1-b2)) = |g|.
  EXPECT_NEAR(update.weights[q], 1 - rate, 1e-7);
  EXPECT_NEAR(update.weights[q + 1], 1 + rate, 1e-7);
  EXPECT_EQ(update.weights[q + 2], 1.0f);
  EXPECT_EQ(update.gradients[q], 0.0f);
  update.gradients[q] = 1.0f;
  update.step(0.75);  // half the rate
  const double m = (0.8 * (0.2 * 0.5) + 0.2 * 1) / (1 - 0.8 * 0.8);
  const double v = (0.95 * (0.05 * 0.25) + 0.05 * 1) / (1 - 0.95 * 0.95);
  EXPECT_NEAR(update.weights[q], 1 - rate - 0.5 * rate * m / std::sqrt(v), 1e-7);
}

TEST(Optimiser, EveryTensorIsUpdatedOnceByItsGroup) {
  for (const char* matrices : {"adamw", "muon"}) {
    Config config = small();
    config.matrix_optimiser = matrices;
    config.muon_decay = 0;
    Update update(config);
    // One element of each tensor has a gradient: AdamW moves it by the rate, Muon by a share of it.
    for (const Parameter& p : update.layout.parameters())
      update.gradients[static_cast<size_t>(p.offset)] = 0.25f;
    update.step(0);
    for (const Parameter& p : update.layout.parameters()) {
      const auto at = static_cast<size_t>(p.offset);
      const bool muon = p.group == Group::matrix && config.matrix_optimiser == "muon";
      if (muon)
        EXPECT_LT(update.weights[at], 0.999f) << p.name;
      else
        EXPECT_NEAR(update.weights[at], 1 - adam_setting(config, p.group).rate, 1e-5) << p.name;
      for (size_t i = 1; i < static_cast<size_t>(p.size); ++i)
        ASSERT_NEAR(update.weights[at + i], 1.0f, muon ? 2e-3 : 0.0) << p.name << "[" << i << "]";
    }
    for (const float g : update.gradients) ASSERT_EQ(g, 0.0f);
  }
}

TEST(Optimiser, MuonMovesAMatrixAlongAnOrthogonalOne) {
  Config config = small();
  config.matrix_optimiser = "muon";
  config.muon_decay = 0;
  Update update(config);
  const size_t q = update.at("layers.1.q");
  const size_t C = 32;
  // diag(1, 2, ..., 32): after orthogonalisation every direction moves alike.
  for (size_t i = 0; i < C; ++i) update.gradients[q + i * C + i] = static_cast<float>(i + 1);
  update.step(0);
  double least = 1e9, most = 0;
  for (size_t i = 0; i < C; ++i) {
    const double moved = 1 - static_cast<double>(update.weights[q + i * C + i]);
    least = std::min(least, moved);
    most = std::max(most, moved);
  }
  EXPECT_GT(least, 0.5 * config.lr_muon);
  EXPECT_LT(most, 1.5 * config.lr_muon);
}

TEST(Optimiser, StateIsWhatAResumedRunNeeds) {
  Config config = small();
  config.matrix_optimiser = "muon";
  Update whole(config), first(config), second(config);
  const auto draw = [](Update& u, int step) {
    for (size_t i = 0; i < u.gradients.size(); ++i)
      u.gradients[i] = std::sin(static_cast<float>(i % 1013) + static_cast<float>(step));
  };
  for (int step = 0; step < 4; ++step) {
    draw(whole, step);
    whole.step(0.2 * step);
    if (step >= 2) continue;
    draw(first, step);
    first.step(0.2 * step);
  }
  second.weights = first.weights;
  const OptimiserState from = first.optimiser.state();
  OptimiserState to = second.optimiser.state();
  ASSERT_EQ(from.tensors.size(), 4u);
  for (size_t k = 0; k < from.tensors.size(); ++k)
    std::copy(from.tensors[k].bytes.begin(), from.tensors[k].bytes.end(), to.tensors[k].bytes.begin());
  second.optimiser.set_steps(from.updates);
  for (int step = 2; step < 4; ++step) {
    draw(second, step);
    second.step(0.2 * step);
  }
  EXPECT_EQ(second.weights, whole.weights);
}

TEST(Optimiser, GroupsHaveTheirRatesAndMoments) {
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

TEST(Schedule, MuonsMomentumRisesOverThreeHundredUpdates) {
  const Config config;
  EXPECT_DOUBLE_EQ(muon_momentum(config, 1), 0.85);
  EXPECT_DOUBLE_EQ(muon_momentum(config, 151), 0.90);
  EXPECT_DOUBLE_EQ(muon_momentum(config, 301), 0.95);
  EXPECT_DOUBLE_EQ(muon_momentum(config, 5000), 0.95);
}

}  // namespace
}  // namespace kl::trainer
