#include <trainer/regions.hpp>

#include <trainer/seam_table.hpp>
#include <trainer/test_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace kl::trainer {
namespace {

std::string refusal(std::initializer_list<const char*> settings) {
  Config config = tiny_config();
  for (const char* setting : settings) EXPECT_TRUE(apply_setting(config, setting).ok()) << setting;
  const Outcome outcome = check_regions(config);
  return outcome.ok() ? "accepted" : outcome.error().what + "; " + outcome.error().remedy;
}

TEST(Regions, AnUnknownChoiceNamesThoseThereAre) {
  EXPECT_THAT(refusal({"mlp=fused"}), testing::HasSubstr("fused_mlp"));
  EXPECT_THAT(refusal({"loss=cross_entropy"}), testing::HasSubstr("cross_entropy_full"));
}

TEST(Regions, NoOperationRunsTwice) {
  EXPECT_THAT(refusal({"attention_output=matmul_epilogue", "second_norm=residual_rmsnorm"}),
              testing::HasSubstr("attention's residual add would run twice"));
  EXPECT_THAT(refusal({"mlp=fused_mlp", "mlp_output=matmul_epilogue"}), testing::HasSubstr("twice"));
  EXPECT_THAT(refusal({"block_start=block_prelude", "rotary=rope_qk_fused"}),
              testing::HasSubstr("twice"));
  EXPECT_THAT(refusal({"loss=cross_entropy_full", "lm_head=matmul_epilogue"}),
              testing::HasSubstr("twice"));
  EXPECT_EQ(refusal({"mlp=fused_mlp", "mlp_output=residual_rmsnorm"}), "accepted");
}

TEST(Regions, EachSaysWhatItIsAndWhatItMayBe) {
  Config config = tiny_config();
  config.second_norm = "residual_rmsnorm";
  for (const RegionChoices& region : describe_regions(config)) {
    EXPECT_EQ(region.value == region.choices.front(), region.region != "second_norm") << region.region;
    for (const std::string& choice : region.choices) {
      Config other = tiny_config();
      EXPECT_TRUE(apply_setting(other, region.region + "=" + choice).ok());
      EXPECT_TRUE(check_regions(other).ok()) << region.region << "=" << choice;
    }
  }
}

TEST(Regions, OnCudaTheDefaultsAlone) {
  EXPECT_THAT(refusal({"device=cuda", "attention=parts"}), testing::HasSubstr("flash_attention only"));
  EXPECT_EQ(refusal({"device=cuda"}), "accepted");
}

TEST(Regions, ThePathsOfTheTestsTakeEverySeam) {
  std::set<Seam> taken;
  const auto take = [&](const Config& config) {
    EXPECT_TRUE(check_regions(config).ok());
    for (const SeamUse& use : seam_table(config)) taken.insert(use.seam);
  };
  take(tiny_config());
  for (const auto& path : other_paths()) take(tiny_config_on(path));
  for (const SeamContract& contract : contracts()) EXPECT_TRUE(taken.contains(contract.seam)) << contract.key;
}

TEST(Regions, ASeamOffThePathSaysWhatOpensIt) {
  const Config config = tiny_config();
  std::map<std::string, std::map<std::string, std::string>> opened_by;
  for (const auto& seam : describe_shadowed_seams(config)) opened_by[seam.seam] = seam.opened_by;
  using Settings = std::map<std::string, std::string>;
  EXPECT_EQ(opened_by.at("rope_qk_fused"), (Settings{{"rotary", "rope_qk_fused"}}));
  EXPECT_EQ(opened_by.at("softmax"), (Settings{{"attention", "parts"}}));
  EXPECT_EQ(opened_by.at("fused_mlp"), (Settings{{"mlp", "fused_mlp"}}));
  for (const auto& seam : describe_seams(config)) {
    EXPECT_TRUE(seam.opened_by.empty()) << seam.seam;
    EXPECT_FALSE(opened_by.contains(seam.seam)) << seam.seam;
  }
  EXPECT_EQ(opened_by.size() + describe_seams(config).size(), contracts().size());
}

TEST(Regions, OpeningASeamTakesAwayWhatWouldRunItsOperationsTwice) {
  Config config = tiny_config_on({"block_start=block_prelude", "mlp_output=matmul_epilogue"});
  std::map<std::string, std::map<std::string, std::string>> opened_by;
  for (const auto& seam : describe_shadowed_seams(config)) opened_by[seam.seam] = seam.opened_by;
  using Settings = std::map<std::string, std::string>;
  EXPECT_EQ(opened_by.at("rope_qk_fused"), (Settings{{"block_start", "parts"}, {"rotary", "rope_qk_fused"}}));
  EXPECT_EQ(opened_by.at("fused_mlp"), (Settings{{"mlp", "fused_mlp"}, {"mlp_output", "parts"}}));
}

}  // namespace
}  // namespace kl::trainer
