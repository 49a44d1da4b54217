// Which seam runs each region of the step (TRAINER's seam map): read once from a preset.
#pragma once

#include <trainer/config.hpp>

namespace kl::trainer {

struct Regions {
  explicit Regions(const Config& config);
  bool block_prelude;      // else residual_blend, rmsnorm and the next two regions
  bool attention_prelude;  // else matrix products and value_embed_gate
  bool rope_qk_fused;      // else rotary_embedding, qk_rmsnorm
  bool flash_attention;    // else head-major parts: proj_head_reshape, mask, softmax, data_movement
  bool output_epilogue;    // attention's output: matmul_epilogue, else a product and launch_fusion
  bool second_norm;        // residual_rmsnorm, else an add and rmsnorm
  bool fused_mlp;          // else matrix products and activation_pointwise
  bool mlp_epilogue;       // matmul_epilogue with the residual, else a product and an add
  bool final_norm;         // residual_rmsnorm after the last MLP, else an add and rmsnorm
  bool lm_head_epilogue;   // matmul_epilogue, else a product
  bool loss_prelude;       // else its parts, unless:
  bool cross_entropy_full; // from the last norm to the loss
};

// A region as a preset has it, and what it may have; the default first.
struct RegionChoices {
  std::string region, value;
  std::vector<std::string> choices;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("region", self.region, "the preset's field");
    v("value", self.value, "as the preset has it");
    v("choices", self.choices, "what it may be; the default first");
  }
};
std::vector<RegionChoices> describe_regions(const Config& config);  // in the order of the step

// Every region has a value it knows, and no operation of the step is covered twice.
Outcome check_regions(const Config& config);

}  // namespace kl::trainer
