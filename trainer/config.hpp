// A trainer operating point: every field of a preset, and what follows from them.
#pragma once

#include <lab/core/record.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kl::trainer {

struct Config {
  std::string name;
  std::string family = "cpu";
  int64_t strength = 0;
  std::string description;
  std::string device = "cpu";
  // model
  int64_t vocab = 8192;
  int64_t sequence = 256;
  int64_t layers = 4;
  int64_t width = 256;
  int64_t head_dim = 128;
  int64_t kv_heads = 0;
  std::string window_pattern = "SSSL";
  double softcap = 15;
  double eps = 1.1920928955078125e-07;
  // batch and schedule
  int64_t rows = 4;
  int64_t accumulation = 1;
  int64_t loss_rows = 0;
  int64_t steps = 1000;
  double decay_fraction = 0.5;
  int64_t seed = 1;
  int64_t threads = 0;
  // regions: the seam that runs each, or "parts" for the seams inside it
  std::string block_start = "parts";
  std::string qkv = "parts";
  std::string rotary = "parts";
  std::string attention = "flash_attention";
  std::string attention_output = "parts";
  std::string second_norm = "parts";
  std::string mlp = "parts";
  std::string mlp_output = "parts";
  std::string lm_head = "parts";
  std::string loss = "loss_prelude";
  // optimiser
  std::string matrix_optimiser = "adamw";
  double lr_muon = 0.04;
  double muon_momentum_start = 0.85;
  double muon_momentum = 0.95;
  double muon_momentum_steps = 300;
  double muon_beta2 = 0.95;
  double muon_decay = 0.2;
  double lr_head = 0.004;
  double lr_embedding = 0.6;
  double lr_value_embedding = 0.6;
  double lr_matrix = 0.004;
  double lr_lambda = 0.005;
  double lr_mu = 0.5;
  double beta1 = 0.8;
  double beta2 = 0.95;
  double beta1_mu = 0.96;
  double adam_eps = 1e-10;
  // data
  std::string corpus = "gcide";
  int64_t corpus_bytes = 0;
  int64_t tokenizer_bytes = 8 << 20;
  double held_out_percent = 1;
  int64_t eval_tokens = 65536;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("name", self.name, "preset");
    v("family", self.family, "presets of one family differ in strength only");
    v("strength", self.strength, "the next stronger preset has the next larger number");
    v("description", self.description, "one sentence");
    v("device", self.device, "cpu: fp32 in host memory; cuda: bf16 on the first GPU");
    v("vocab", self.vocab, "V: pieces of the vocabulary");
    v("sequence", self.sequence, "T: tokens of a row");
    v("layers", self.layers, "L");
    v("width", self.width, "C");
    v("head_dim", self.head_dim, "D; heads H = width / head_dim");
    v("kv_heads", self.kv_heads, "key and value heads; 0: as many as heads");
    v("window_pattern", self.window_pattern, "repeated over the layers: S = T/2, L = T");
    v("softcap", self.softcap, "logits are softcap * tanh(z / softcap)");
    v("eps", self.eps, "of every rmsnorm");
    v("rows", self.rows, "B: rows of a micro-batch");
    v("accumulation", self.accumulation, "micro-batches of a step");
    v("loss_rows", self.loss_rows, "cuda: rows of logits held at once; 0: those of a micro-batch");
    v("steps", self.steps, "steps of a run without a time limit");
    v("decay_fraction", self.decay_fraction, "last part of the run, in which the rate falls to 0");
    v("seed", self.seed, "fixes initial weights and the order of tokens");
    v("threads", self.threads, "0: every core this process may use");
    v("block_start", self.block_start, "block_prelude; parts: residual_blend, rmsnorm, then qkv and rotary");
    v("qkv", self.qkv, "attention_prelude; parts: matrix products, value_embed_gate");
    v("rotary", self.rotary, "rope_qk_fused; parts: rotary_embedding, qk_rmsnorm");
    v("attention", self.attention, "flash_attention; parts: proj_head_reshape, attention_mask_local, softmax, data_movement and matrix products");
    v("attention_output", self.attention_output, "matmul_epilogue with the residual; parts: a matrix product, launch_fusion");
    v("second_norm", self.second_norm, "residual_rmsnorm; parts: launch_fusion, rmsnorm");
    v("mlp", self.mlp, "fused_mlp; parts: matrix products, activation_pointwise");
    v("mlp_output", self.mlp_output, "matmul_epilogue with the residual; residual_rmsnorm: after the last layer the add and the final norm at once; parts: launch_fusion, rmsnorm");
    v("lm_head", self.lm_head, "matmul_epilogue; parts: a matrix product");
    v("loss", self.loss, "cross_entropy_full, with lm_head; loss_prelude; parts: logits_softcap, cross_entropy_prelude, reduce");
    v("matrix_optimiser", self.matrix_optimiser, "of block matrices and gates: muon or adamw");
    v("lr_muon", self.lr_muon, "Muon, times max(1, rows / columns)^1/2");
    v("muon_momentum_start", self.muon_momentum_start, "Nesterov momentum of the first step");
    v("muon_momentum", self.muon_momentum, "Nesterov momentum from muon_momentum_steps on");
    v("muon_momentum_steps", self.muon_momentum_steps, "steps over which it rises");
    v("muon_beta2", self.muon_beta2, "second moment of rows or columns");
    v("muon_decay", self.muon_decay, "cautious decay, times 1 - progress");
    v("lr_head", self.lr_head, "AdamW, times (width / 768)^-1/2");
    v("lr_embedding", self.lr_embedding, "AdamW, times (width / 768)^-1/2");
    v("lr_value_embedding", self.lr_value_embedding, "AdamW, times (width / 768)^-1/2");
    v("lr_matrix", self.lr_matrix, "AdamW, block matrices and gates");
    v("lr_lambda", self.lr_lambda, "AdamW, residual blend lambda");
    v("lr_mu", self.lr_mu, "AdamW, residual blend mu");
    v("beta1", self.beta1, "first moment");
    v("beta2", self.beta2, "second moment");
    v("beta1_mu", self.beta1_mu, "first moment of mu");
    v("adam_eps", self.adam_eps, "added to the root of the second moment");
    v("corpus", self.corpus, "gcide, or a text file, JSON Lines file or folder; or a folder of token shards");
    v("corpus_bytes", self.corpus_bytes, "text used, chosen by document hash, or bytes of shards to train on, in order; 0: all");
    v("tokenizer_bytes", self.tokenizer_bytes, "text the vocabulary is trained on");
    v("held_out_percent", self.held_out_percent, "documents kept for evaluation, by hash");
    v("eval_tokens", self.eval_tokens, "held-out tokens evaluated at most");
  }

  int64_t heads() const { return width / head_dim; }
  int64_t kv() const { return kv_heads == 0 ? heads() : kv_heads; }
  int64_t kv_width() const { return kv() * head_dim; }
  int64_t tokens() const { return rows * sequence; }  // N of a micro-batch, and of most seam calls
  int64_t loss_chunk() const { return loss_rows == 0 ? tokens() : loss_rows; }  // N of loss_prelude
  int64_t tokens_per_step() const { return tokens() * accumulation; }
  bool has_value_embedding(int64_t layer) const { return layer % 2 == (layers - 1) % 2; }
  // Keys before the current one that a query sees; the last layer always sees all.
  int64_t window(int64_t layer) const;
  int64_t parameter_count() const;
  // 6 per non-embedding parameter and token, and 12*H*D*min(w, T) for attention.
  double flops_per_token() const;
};

// Values that fit no model: the first one found, named.
Outcome validate(const Config& config);

struct Presets {
  static std::vector<std::filesystem::path> search_path();  // ./trainer/presets, the installation's
  static Result<std::vector<Config>> all();                 // by family, then strength
  static Result<Config> find(std::string_view name);        // near matches in the error
};
// Unknown keys give near matches; values must have the field's type.
Result<Config> read_preset(const std::filesystem::path& file);
Outcome apply_overrides(Config& config, const Json& overrides);
// "key=value" with the value read as the field's type.
Outcome apply_setting(Config& config, std::string_view setting);

}  // namespace kl::trainer
