#include <trainer/host_memory.hpp>
#include <trainer/run.hpp>
#include <trainer/test_libraries.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace kl::trainer {
namespace {

using testing::HasSubstr;

// Of every preset, computed by hand from the model's description in docs/trainer.md.
struct Expected {
  const char* name;
  int64_t sequence, layers, width, heads;
  const char* windows;
  int64_t parameters;
  double flops_per_token;
  int64_t tokens_per_step;
};
constexpr Expected kPresets[] = {
    {"smoke", 128, 2, 128, 1, "SSSL", 1'179'684, 4'227'264, 512},
    {"cpu-balanced", 256, 4, 256, 2, "SSSL", 11'534'472, 33'424'128, 1024},
    {"cpu-strong", 512, 6, 384, 3, "SSSL", 26'345'772, 92'014'272, 2048},
    {"h200-balanced", 2048, 8, 512, 4, "SSSL", 50'332'176, 239'078'400, 131'072},
    {"upstream", 2048, 8, 512, 4, "SSSL", 50'332'176, 239'078'400, 524'288},
    {"gpt2-124m", 1024, 12, 768, 12, "L", 394'004'760, 854'668'800, 524'288},
    {"m5-tiny", 256, 2, 128, 1, "L", 3'538'980, 9'437'376, 4096},
    {"m5-small", 512, 4, 256, 2, "L", 11'534'472, 37'749'504, 4096},
    {"m5-balanced", 1024, 6, 384, 3, "SSSSL", 26'345'772, 101'451'456, 4096},
    {"m5-large", 512, 8, 512, 4, "SSSSL", 50'332'176, 191'892'480, 4096},
    {"m5-xlarge", 2048, 8, 512, 4, "L", 50'332'176, 276'827'136, 4096},
};
void PrintTo(const Expected& preset, std::ostream* out) { *out << preset.name; }

Config preset(const std::string& name) {
  const auto found = Presets::find(name);
  EXPECT_TRUE(found.ok()) << found.error().what;
  return found.ok() ? *found : Config{};
}

class PresetTest : public testing::TestWithParam<Expected> {};

TEST_P(PresetTest, HasItsShapeParametersAndOperations) {
  const Config c = preset(GetParam().name);
  EXPECT_EQ(c.sequence, GetParam().sequence);
  EXPECT_EQ(c.layers, GetParam().layers);
  EXPECT_EQ(c.width, GetParam().width);
  EXPECT_EQ(c.heads(), GetParam().heads);
  EXPECT_EQ(c.window_pattern, GetParam().windows);
  EXPECT_EQ(c.parameter_count(), GetParam().parameters);
  EXPECT_EQ(Layout(c).size(), GetParam().parameters);
  EXPECT_DOUBLE_EQ(c.flops_per_token(), GetParam().flops_per_token);
  EXPECT_EQ(c.tokens_per_step(), GetParam().tokens_per_step);
}

// One row on the CPU in fp32, whatever the preset runs on: lm_head is small at first, so that every token is about
// as likely as every other, and the first loss is ln V. Rows of 256 tokens; scripts/check-presets takes whole rows
// and models that take half a minute.
TEST_P(PresetTest, TakesAStepWhoseLossIsThatOfNoKnowledge) {
  Config c = preset(GetParam().name);
  for (const char* setting : {"device=cpu", "rows=1", "accumulation=1", "loss_rows=0"})
    ASSERT_TRUE(apply_setting(c, setting).ok());
  const bool whole = std::getenv("KL_WHOLE_ROWS") != nullptr;
  if (!whole && c.parameter_count() > 100'000'000) GTEST_SKIP() << "large: scripts/check-presets";
  if (!whole) c.sequence = std::min<int64_t>(c.sequence, 256);
  Dataset data;
  data.facts.bos = static_cast<int32_t>(c.vocab - 1);
  for (int64_t i = 0; i < 2 * c.sequence; ++i)
    data.train.push_back(static_cast<uint16_t>(i % 100 == 0 ? c.vocab - 1 : (i * 7919) % (c.vocab - 1)));
  data.held_out = data.train;
  const auto session = Session::open(c, std::move(data), test_champions(c));
  ASSERT_TRUE(session.ok()) << session.error().what;
  const auto step = (*session)->step(1);
  ASSERT_TRUE(step.ok()) << step.error().what;
  EXPECT_NEAR(step->loss, std::log(static_cast<double>(c.vocab)), 0.01);
  EXPECT_GT(step->grad_norm, 0);
}

INSTANTIATE_TEST_SUITE_P(Every, PresetTest, testing::ValuesIn(kPresets), [](const auto& test) {
  std::string name = test.param.name;
  std::erase(name, '-');
  return name;
});

TEST(PresetList, IsWholeAndOrderedByFamilyAndStrength) {
  const auto all = Presets::all();
  ASSERT_TRUE(all.ok()) << all.error().what;
  std::vector<std::string> names;
  for (const Config& c : *all) names.push_back(c.name);
  for (const Expected& expected : kPresets) EXPECT_THAT(names, testing::Contains(expected.name));
  EXPECT_THAT(std::vector(names.begin(), names.begin() + 3), testing::ElementsAre("smoke", "cpu-balanced", "cpu-strong"));
  for (size_t i = 1; i < all->size(); ++i) {
    const Config &weaker = (*all)[i - 1], &stronger = (*all)[i];
    EXPECT_TRUE(weaker.family != stronger.family || weaker.strength < stronger.strength) << names[i];
  }
}

TEST(HostMemory, WhatDoesNotFitSaysSoWithTheRowsThatWould) {
  Config c = preset("upstream");
  const MemoryPlan plan{1'000'000'000, 128'000'000'000};
  EXPECT_TRUE(check_memory(c, plan, std::nullopt).ok());
  EXPECT_TRUE(check_memory(c, plan, 129'000'000'000).ok());
  const auto some = check_memory(c, plan, 24'000'000'000);
  ASSERT_FALSE(some.ok());
  EXPECT_EQ(some.error().what,
            "preset upstream needs 129.0 GB (1.0 GB for parameters and their optimiser, 128.0 GB for a micro-batch of "
            "128 rows); 24.0 GB are free");
  EXPECT_EQ(some.error().remedy, "--set rows=23 --set accumulation=12 fits, with as many tokens a step");
  EXPECT_THAT(check_memory(c, plan, 900'000'000).error().remedy, HasSubstr("smaller preset"));
}

TEST(HostMemory, IsKnownHereAndAskedBeforeAnythingIsAllocated) {
  ASSERT_TRUE(available_memory_bytes().has_value());
  EXPECT_GT(*available_memory_bytes(), 100'000'000);
  Config c = preset("smoke");
  c.rows = 8000;  // about 50 GB of activations
  Dataset data;
  data.train = data.held_out = {1, 2, 3};
  const auto session = Session::open(c, std::move(data), test_champions(c));
  if (session.ok()) GTEST_SKIP() << "it fits";
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(session.error().what, HasSubstr("for a micro-batch of 8000 rows"));
  EXPECT_THAT(session.error().remedy, HasSubstr("--set rows="));
}

}  // namespace
}  // namespace kl::trainer
