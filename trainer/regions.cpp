#include <trainer/regions.hpp>

#include <lab/core/near.hpp>

#include <algorithm>

namespace kl::trainer {
namespace {

struct Region {
  const char* name;
  std::string Config::*value;
  std::vector<std::string> choices;  // the first is the default
};

const std::vector<Region>& regions() {
  static const std::vector<Region> list = {
      {"block_start", &Config::block_start, {"parts", "block_prelude"}},
      {"qkv", &Config::qkv, {"parts", "attention_prelude"}},
      {"rotary", &Config::rotary, {"parts", "rope_qk_fused"}},
      {"attention", &Config::attention, {"flash_attention", "parts"}},
      {"attention_output", &Config::attention_output, {"parts", "matmul_epilogue"}},
      {"second_norm", &Config::second_norm, {"parts", "residual_rmsnorm"}},
      {"mlp", &Config::mlp, {"parts", "fused_mlp"}},
      {"mlp_output", &Config::mlp_output, {"parts", "residual_rmsnorm", "matmul_epilogue"}},
      {"lm_head", &Config::lm_head, {"parts", "matmul_epilogue"}},
      {"loss", &Config::loss, {"loss_prelude", "parts", "cross_entropy_full"}},
  };
  return list;
}

// Two choices that would both run the same operation.
struct Clash {
  const char *region, *value, *other_region, *other_value, *operation;
};
constexpr Clash kClashes[] = {
    {"block_start", "block_prelude", "qkv", "attention_prelude", "the projections"},
    {"block_start", "block_prelude", "rotary", "rope_qk_fused", "the rotation"},
    {"attention_output", "matmul_epilogue", "second_norm", "residual_rmsnorm", "attention's residual add"},
    {"mlp", "fused_mlp", "mlp_output", "matmul_epilogue", "the MLP's second matrix product"},
    {"loss", "cross_entropy_full", "lm_head", "matmul_epilogue", "the product with lm_head"},
};

}  // namespace

Regions::Regions(const Config& c)
    : block_prelude(c.block_start == "block_prelude"),
      attention_prelude(c.qkv == "attention_prelude"),
      rope_qk_fused(c.rotary == "rope_qk_fused"),
      flash_attention(c.attention == "flash_attention"),
      output_epilogue(c.attention_output == "matmul_epilogue"),
      second_norm(c.second_norm == "residual_rmsnorm"),
      fused_mlp(c.mlp == "fused_mlp"),
      mlp_epilogue(c.mlp_output == "matmul_epilogue"),
      final_norm(c.mlp_output == "residual_rmsnorm"),
      lm_head_epilogue(c.lm_head == "matmul_epilogue"),
      loss_prelude(c.loss == "loss_prelude"),
      cross_entropy_full(c.loss == "cross_entropy_full") {}

std::vector<RegionChoices> describe_regions(const Config& c) {
  std::vector<RegionChoices> list;
  for (const Region& region : regions()) list.push_back({region.name, c.*(region.value), region.choices});
  return list;
}

Outcome check_regions(const Config& c) {
  const auto value_of = [&](std::string_view name) -> const std::string& {
    const auto it = std::find_if(regions().begin(), regions().end(),
                                 [&](const Region& region) { return region.name == name; });
    return c.*(it->value);
  };
  for (const Region& region : regions()) {
    const std::string& value = c.*(region.value);
    if (std::find(region.choices.begin(), region.choices.end(), value) == region.choices.end())
      return make_error(Status::usage, std::string(region.name) + " is '" + value + "'",
                        suggestion(value, region.choices));
    if (c.device == "cuda" && value != region.choices.front())
      return make_error(Status::usage, std::string(region.name) + " is '" + value + "' on cuda",
                        "the CUDA step knows " + region.choices.front() + " only");
  }
  for (const Clash& clash : kClashes)
    if (value_of(clash.region) == clash.value && value_of(clash.other_region) == clash.other_value)
      return make_error(Status::usage,
                        std::string(clash.operation) + " would run twice: in " + clash.value +
                            " (" + clash.region + ") and in " + clash.other_value + " (" +
                            clash.other_region + ")",
                        "leave one of the two to the other: see `kernel-lab-train --help`");
  return {};
}

}  // namespace kl::trainer
