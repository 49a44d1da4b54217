#include <trainer/seam.hpp>

#include <stdexcept>

namespace kl::trainer {
namespace {

// Tensors in the order of the targets' specs, and the settings that put a seam on the path.
constexpr SeamContract kContracts[] = {
    {Seam::rmsnorm, "rmsnorm", {{"forward", "x w -> y"}, {"backward", "dy x w -> dx dw"}}, ""},
    {Seam::residual_blend,
     "residual_blend",
     {{"forward", "x x0 lambda mu -> y"}, {"backward", "dy x x0 lambda mu -> dx dx0 dlambda dmu"}},
     "block_start=parts"},
    {Seam::block_prelude,
     "block_prelude",
     {{"forward", "x x0 lambda mu wq wk wv cos sin ve wg -> xb q k v"},
      {"backward",
       "dxb dq dk dv x x0 lambda mu wq wk wv cos sin ve wg q k -> "
       "dx dx0 dlambda dmu dwq dwk dwv dve dwg"}},
     "block_start=block_prelude qkv=parts rotary=parts"},
    {Seam::attention_prelude,
     "attention_prelude",
     {{"forward", "x wq wk wv ve wg -> q k v"},
      {"backward", "dq dk dv x wq wk wv ve wg -> dx dwq dwk dwv dve dwg"}},
     "block_start=parts qkv=attention_prelude"},
    {Seam::ve_lookup_reshape,
     "ve_lookup_reshape",
     {{"forward", "tokens table -> ve"}, {"backward", "dve tokens -> dtable"}},
     ""},
    {Seam::value_embed_gate,
     "value_embed_gate",
     {{"forward", "x v ve wg -> y"}, {"backward", "dy x ve wg -> dx dve dwg"}},
     "block_start=parts qkv=parts"},
    {Seam::rotary_embedding,
     "rotary_embedding",
     {{"forward", "q k cos sin -> q_out k_out"}, {"backward", "dq_out dk_out cos sin -> dq dk"}},
     "block_start=parts rotary=parts"},
    {Seam::qk_rmsnorm,
     "qk_rmsnorm",
     {{"forward", "q k -> q_out k_out"}, {"backward", "dq_out dk_out q k -> dq dk"}},
     "block_start=parts rotary=parts"},
    {Seam::rope_qk_fused,
     "rope_qk_fused",
     {{"forward", "q k cos sin -> q_out k_out"},
      {"backward", "dq_out dk_out q k cos sin -> dq dk"}},
     "block_start=parts rotary=rope_qk_fused"},
    {Seam::flash_attention,
     "flash_attention",
     {{"forward", "q k v -> o lse"}, {"backward", "do q k v o lse -> dq dk dv"}},
     "attention=flash_attention"},
    {Seam::proj_head_reshape,
     "proj_head_reshape",
     {{"forward", "x -> y"}, {"backward", "dy -> dx"}},
     "attention=parts"},
    {Seam::attention_mask_local,
     "attention_mask_local",
     {{"forward", "windows -> mask"}},
     "attention=parts"},
    {Seam::softmax,
     "softmax",
     {{"forward", "z mask -> p"}, {"backward", "dp p -> dz"}},
     "attention=parts"},
    {Seam::data_movement,
     "data_movement",
     {{"forward", "x -> y"}, {"backward", "dy -> dx"}},
     "attention=parts"},
    {Seam::matmul_epilogue,
     "matmul_epilogue",
     {{"forward", "x w bias residual -> y"}, {"backward", "dy x w -> dx dw dbias"}},
     "attention_output=matmul_epilogue second_norm=parts"},
    {Seam::launch_fusion,
     "launch_fusion",
     {{"forward", "residual update -> sum"}},
     "attention_output=parts second_norm=parts"},
    {Seam::residual_rmsnorm,
     "residual_rmsnorm",
     {{"forward", "residual update -> sum y"}, {"backward", "dsum dy sum -> dresidual"}},
     "attention_output=parts second_norm=residual_rmsnorm"},
    {Seam::fused_mlp,
     "fused_mlp",
     {{"forward", "x w1 w2 -> y"}, {"backward", "dy x w1 w2 -> dx dw1 dw2"}},
     "mlp=fused_mlp mlp_output=parts"},
    {Seam::activation_pointwise,
     "activation_pointwise",
     {{"forward", "h -> y"}, {"backward", "dy h -> dh"}},
     "mlp=parts"},
    {Seam::cross_entropy_full,
     "cross_entropy_full",
     {{"forward", "x w targets token_bytes -> nll nll_sum byte_sum"},
      {"backward", "g x w targets -> dx dw"}},
     "loss=cross_entropy_full lm_head=parts"},
    {Seam::loss_prelude,
     "loss_prelude",
     {{"forward", "logits targets token_bytes -> nll nll_sum byte_sum"},
      {"backward", "g logits targets -> dlogits"}},
     "loss=loss_prelude"},
    {Seam::logits_softcap,
     "logits_softcap",
     {{"forward", "z -> y"}, {"backward", "dy z -> dz"}},
     "loss=parts"},
    {Seam::cross_entropy_prelude,
     "cross_entropy_prelude",
     {{"forward", "z targets -> row_max lse target_logit"},
      {"backward", "dlse dtarget_logit z targets -> dz"}},
     "loss=parts"},
    {Seam::reduce,
     "reduce",
     {{"sum", "x -> rows all"}, {"sum_of_squares", "x -> rows all"}},
     ""},
    {Seam::optimizer_update,
     "optimizer_update",
     {{"adamw", "g hyper -> p m v"},
      {"muon", "g_stack muon_hyper -> p_stack momentum second_moment"}},
     ""},
};

}  // namespace

std::span<const SeamContract> contracts() { return kContracts; }

const SeamContract& contract_of(Seam seam) {
  for (const SeamContract& contract : kContracts)
    if (contract.seam == seam) return contract;
  throw std::logic_error("a seam without a contract");
}

const SeamContract& contract_of(std::string_view key) {
  for (const SeamContract& contract : kContracts)
    if (contract.key == key) return contract;
  throw std::logic_error("no seam named " + std::string(key));
}

}  // namespace kl::trainer
