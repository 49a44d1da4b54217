#include <trainer/config.hpp>

#include <trainer/parameters.hpp>
#include <trainer/seam_set.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl::trainer {
namespace {

Config upstream() {
  Config c;
  c.sequence = 2048;
  c.layers = 8;
  c.width = 512;
  return c;
}

TEST(Config, TheUpstreamShapeHasThePublishedParameterCountAndOperations) {
  EXPECT_EQ(upstream().parameter_count(), 50'332'176);
  EXPECT_EQ(Layout(upstream()).size(), 50'332'176);
  EXPECT_DOUBLE_EQ(upstream().flops_per_token(), 239'078'400);
}

TEST(Config, WindowsFollowThePatternAndTheLastLayerSeesAll) {
  Config c = upstream();
  c.layers = 6;
  const int64_t expected[] = {1024, 1024, 1024, 2048, 1024, 2048};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(c.window(i), expected[i]) << i;
}

TEST(Config, ValueEmbeddingsAreOnTheLayersOfTheLastLayersParity) {
  Config c = upstream();
  EXPECT_FALSE(c.has_value_embedding(0));
  EXPECT_TRUE(c.has_value_embedding(1));
  EXPECT_TRUE(c.has_value_embedding(7));
  c.layers = 3;
  EXPECT_TRUE(c.has_value_embedding(0));
  EXPECT_FALSE(c.has_value_embedding(1));
  EXPECT_TRUE(c.has_value_embedding(2));
}

TEST(Parameters, StartWithTheStatedStatistics) {
  Config c;
  c.vocab = 2048;
  const Layout layout(c);
  std::vector<float> weights(static_cast<size_t>(layout.size()));
  initialise(layout, c, weights);
  const auto moments = [&](const std::string& name) {
    const Parameter& p = layout.find(name);
    double sum = 0, squares = 0, largest = 0;
    for (int64_t i = 0; i < p.size; ++i) {
      const double w = static_cast<double>(weights[static_cast<size_t>(p.offset + i)]);
      sum += w;
      squares += w * w;
      largest = std::max(largest, std::fabs(w));
    }
    const double n = static_cast<double>(p.size);
    return std::array<double, 3>{sum / n, std::sqrt(squares / n), largest};
  };
  const double bound = std::sqrt(3.0) / 16;  // sqrt(3) / sqrt(C)
  EXPECT_NEAR(moments("wte")[0], 0, 0.01);
  EXPECT_NEAR(moments("wte")[1], 1, 0.01);
  EXPECT_NEAR(moments("lm_head")[1], 0.001, 0.00001);
  for (const char* name : {"layers.0.q", "layers.1.k", "layers.2.v", "layers.3.fc", "layers.3.ve"}) {
    EXPECT_NEAR(moments(name)[1], 1.0 / 16, 0.001) << name;
    EXPECT_LE(moments(name)[2], bound) << name;
    EXPECT_GT(moments(name)[2], 0.99 * bound) << name;
  }
  for (const char* name : {"layers.0.o", "layers.2.proj", "layers.1.gate"})
    EXPECT_EQ(moments(name)[2], 0) << name;
  EXPECT_EQ(moments("lambda")[0], 1);
  EXPECT_NEAR(moments("mu")[0], 0.1, 1e-7);
}

TEST(Presets, BothAreReadAndAnUnknownOneGivesNearMatches) {
  for (const char* name : {"smoke", "cpu-balanced"}) {
    const auto preset = Presets::find(name);
    ASSERT_TRUE(preset.ok()) << preset.error().what;
    EXPECT_EQ(preset->name, name);
  }
  const auto unknown = Presets::find("smoek");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().status, Status::usage);
  EXPECT_THAT(unknown.error().remedy, testing::HasSubstr("smoke"));
}

TEST(Presets, TheGpuFamilyCallsItsSeamsAtUpstreamsShapes) {
  const auto preset = Presets::find("gpu-upstream-seams");
  ASSERT_TRUE(preset.ok()) << preset.error().what;
  EXPECT_EQ(preset->device, "cuda");
  const auto seams = describe_seams(*preset);
  ASSERT_EQ(seams.size(), 2u);  // the activation is plain code of the CUDA step
  EXPECT_EQ(seams[0].seam, "rmsnorm");
  EXPECT_EQ(seams[0].shapes[0].axes.at("N"), 262144);
  EXPECT_EQ(seams[0].shapes[0].axes.at("C"), 512);
  EXPECT_EQ(seams[0].shapes[0].calls_of("backward"), 2 * preset->layers + 2);
  EXPECT_EQ(seams[1].seam, "loss_prelude");
  EXPECT_EQ(seams[1].shapes[0].axes.at("N"), 32768);
  EXPECT_EQ(seams[1].shapes[0].axes.at("V"), 8192);
  EXPECT_EQ(seams[1].shapes[0].calls_of("forward"), 8);
  for (const auto& seam : seams) EXPECT_EQ(seam.shapes[0].dtype, "bf16");
}

TEST(Presets, WhatACudaStepCannotRunIsNamed) {
  const Config preset = *Presets::find("gpu-small");
  const auto refusal = [&preset](const char* setting) {
    Config config = preset;
    EXPECT_TRUE(apply_setting(config, setting).ok()) << setting;
    const auto outcome = validate(config);
    return outcome.ok() ? std::string("accepted") : outcome.error().what;
  };
  EXPECT_EQ(refusal("loss_rows=1024"), "accepted");
  EXPECT_THAT(refusal("loss_rows=1000"), testing::HasSubstr("loss_rows is 1000"));
  EXPECT_THAT(refusal("vocab=8190"), testing::HasSubstr("vocab is 8190"));
  EXPECT_THAT(refusal("device=tpu"), testing::HasSubstr("device is 'tpu'"));
}

TEST(Presets, SettingsKeepTheFieldsTypeAndNameTheNearestField) {
  Config c;
  EXPECT_TRUE(apply_setting(c, "rows=8").ok());
  EXPECT_EQ(c.rows, 8);
  EXPECT_TRUE(apply_setting(c, "lr_matrix=1").ok());
  EXPECT_EQ(c.lr_matrix, 1);
  EXPECT_TRUE(apply_setting(c, "corpus=/data/text").ok());
  EXPECT_EQ(c.corpus, "/data/text");
  EXPECT_FALSE(apply_setting(c, "rows=1.5").ok());
  EXPECT_FALSE(apply_setting(c, "rows=many").ok());
  const auto unknown = apply_setting(c, "lr_matrx=1");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().remedy, testing::HasSubstr("lr_matrix"));
  EXPECT_FALSE(apply_overrides(c, {{"widht", 64}}).ok());
}

}  // namespace
}  // namespace kl::trainer
