// A tiny model for tests: every kind of parameter, both windows, grouped key and value heads.
#pragma once

#include <trainer/model.hpp>
#include <trainer/oracle_seams.hpp>
#include <trainer/random.hpp>

namespace kl::trainer {

inline Config tiny_config() {
  Config c;
  c.name = "tiny";
  c.vocab = 23;
  c.sequence = 7;
  c.layers = 3;
  c.width = 32;
  c.head_dim = 8;
  c.kv_heads = 2;
  c.rows = 2;
  c.threads = 2;
  return c;
}

// Settings that between them take every seam that the defaults leave off the path.
inline std::vector<std::vector<const char*>> other_paths() {
  return {
      {"rotary=rope_qk_fused", "second_norm=residual_rmsnorm", "mlp_output=residual_rmsnorm"},
      {"attention=parts", "loss=parts"},
      {"qkv=attention_prelude", "attention_output=matmul_epilogue", "mlp_output=matmul_epilogue",
       "lm_head=matmul_epilogue"},
      {"block_start=block_prelude", "mlp=fused_mlp", "mlp_output=residual_rmsnorm",
       "loss=cross_entropy_full"},
  };
}
inline Config tiny_config_on(const std::vector<const char*>& path) {
  Config config = tiny_config();
  for (const char* setting : path)
    if (!apply_setting(config, setting).ok()) throw std::runtime_error(setting);
  return config;
}

// Values of either sign in every tensor, so that no path through the model carries a zero.
template <class R>
std::vector<R> lively_weights(const Layout& layout) {
  std::vector<R> weights(static_cast<size_t>(layout.size()));
  for (const Parameter& p : layout.parameters())
    for (int64_t i = 0; i < p.size; ++i) {
      const double u = 2 * unit(mix64(static_cast<uint64_t>(p.offset + i) + 77)) - 1;
      const bool scalar = p.group == Group::lambda || p.group == Group::mu;
      const bool wide = p.group == Group::embedding || p.group == Group::value_embedding;
      weights[static_cast<size_t>(p.offset + i)] =
          static_cast<R>(scalar ? 0.7 + 0.2 * u : (wide ? 1.0 : 0.4) * u);
    }
  return weights;
}

struct Batch {
  std::vector<int32_t> tokens, targets;
};
inline Batch tiny_batch(const Config& c) {
  Batch batch;
  for (int64_t n = 0; n < c.tokens(); ++n) {
    batch.tokens.push_back(static_cast<int32_t>(mix64(static_cast<uint64_t>(n)) % static_cast<uint64_t>(c.vocab)));
    batch.targets.push_back(
        static_cast<int32_t>(mix64(static_cast<uint64_t>(n) + 1000) % static_cast<uint64_t>(c.vocab)));
  }
  batch.targets[3] = -1;
  return batch;
}

}  // namespace kl::trainer
