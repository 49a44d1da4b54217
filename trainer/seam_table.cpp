#include <trainer/seam_table.hpp>

#include <cmath>
#include <stdexcept>

namespace kl::trainer {
namespace {

constexpr SeamContract kContracts[] = {
    {Seam::rmsnorm, "rmsnorm", "x w -> y", "dy x w -> dx dw"},
    {Seam::residual_blend, "residual_blend", "x x0 lambda mu -> y",
     "dy x x0 lambda mu -> dx dx0 dlambda dmu"},
    {Seam::launch_fusion, "launch_fusion", "residual update -> sum", "-"},
    {Seam::residual_rmsnorm, "residual_rmsnorm", "residual update -> sum y",
     "dsum dy sum -> dresidual"},
    {Seam::rotary_embedding, "rotary_embedding", "q k cos sin -> q_out k_out",
     "dq_out dk_out cos sin -> dq dk"},
    {Seam::qk_rmsnorm, "qk_rmsnorm", "q k -> q_out k_out", "dq_out dk_out q k -> dq dk"},
    {Seam::rope_qk_fused, "rope_qk_fused", "q k cos sin -> q_out k_out",
     "dq_out dk_out q k cos sin -> dq dk"},
    {Seam::value_embed_gate, "value_embed_gate", "x v ve wg -> y", "dy x ve wg -> dx dve dwg"},
    {Seam::ve_lookup_reshape, "ve_lookup_reshape", "tokens table -> ve", "dve tokens -> dtable"},
    {Seam::flash_attention, "flash_attention", "q k v -> o lse", "do q k v o lse -> dq dk dv"},
    {Seam::activation_pointwise, "activation_pointwise", "h -> y", "dy h -> dh"},
    {Seam::loss_prelude, "loss_prelude", "logits targets token_bytes -> nll nll_sum byte_sum",
     "g logits targets -> dlogits"},
};

std::vector<int> layers(const Config& c) {
  std::vector<int> sites;
  for (int64_t i = 0; i < c.layers; ++i) sites.push_back(layer_site(i));
  return sites;
}

std::vector<int> layers_with_value_embedding(const Config& c) {
  std::vector<int> sites;
  for (int64_t i = 0; i < c.layers; ++i)
    if (c.has_value_embedding(i)) sites.push_back(layer_site(i));
  return sites;
}

// The norms that are not part of a residual_rmsnorm.
std::vector<int> norms(const Config& c) {
  std::vector<int> sites = {embedding_norm()};
  for (int64_t i = 0; i < c.layers; ++i) {
    sites.push_back(first_norm(i));
    if (c.second_norm == "parts") sites.push_back(second_norm(i));
  }
  if (c.mlp_output != "residual_rmsnorm") sites.push_back(final_norm(c.layers));
  return sites;
}

// Sites of the adds: 2 * layer after attention, 2 * layer + 1 after the MLP; the same for those
// with a norm.
std::vector<int> adds(const Config& c, bool with_norm) {
  std::vector<int> sites;
  for (int64_t i = 0; i < c.layers; ++i) {
    if ((c.second_norm == "residual_rmsnorm") == with_norm) sites.push_back(attention_add(i));
    const bool fused = c.mlp_output == "residual_rmsnorm" && i == c.layers - 1;
    if (fused == with_norm) sites.push_back(mlp_add(i));
  }
  return sites;
}

// Layers of one window are one shape.
std::vector<SeamCalls> attention_calls(const Config& c,
                                       const std::map<std::string, int64_t>& axes) {
  std::map<int64_t, std::vector<int>> by_window;
  for (int64_t i = 0; i < c.layers; ++i) by_window[c.window(i)].push_back(layer_site(i));
  std::vector<SeamCalls> calls;
  for (auto& [window, sites] : by_window) {
    SeamShape shape{axes, "f32", {}, {}, {}, static_cast<int64_t>(sites.size()) * c.accumulation};
    shape.scalars = {{"window", static_cast<double>(window)},
                     {"scale", 1 / std::sqrt(static_cast<double>(c.head_dim))}};
    calls.push_back({std::move(shape), std::move(sites)});
  }
  return calls;
}

std::vector<SeamDescription> cuda_seams(const Config& c) {
  const int64_t chunks = c.tokens() / c.loss_chunk();
  SeamShape norm{{{"N", c.tokens()}, {"C", c.width}}, "bf16", {{"eps", c.eps}}, {"w"}, {},
                 (2 * c.layers + 2) * c.accumulation};
  SeamShape loss{{{"N", c.loss_chunk()}, {"V", c.vocab}},
                 "bf16",
                 {{"softcap", c.softcap}},
                 {},
                 {},
                 chunks * c.accumulation};
  return {{"rmsnorm", "rmsnorm", {norm}}, {"loss_prelude", "loss_prelude", {loss}}};
}

}  // namespace

const SeamContract& contract_of(Seam seam) {
  for (const SeamContract& contract : kContracts)
    if (contract.seam == seam) return contract;
  throw std::logic_error("a seam without a contract");
}

std::vector<SeamUse> seam_table(const Config& c) {
  const int64_t N = c.tokens(), C = c.width, D = c.head_dim, T = c.sequence;
  const std::map<std::string, int64_t> rows{{"N", N}, {"C", C}};
  const std::map<std::string, int64_t> heads{
      {"B", c.rows}, {"T", T}, {"H", c.heads()}, {"K", c.kv()}, {"D", D}};
  const std::map<std::string, int64_t> rotated{{"B", c.rows}, {"T", T}, {"H", c.heads()},
                                               {"K", c.kv()}, {"D", D}, {"D2", D / 2}};
  const std::map<std::string, double> eps{{"eps", c.eps}};
  std::vector<SeamUse> table;
  const auto add = [&](Seam seam, SeamShape shape, std::vector<int> sites) {
    if (sites.empty()) return;
    shape.calls_per_step = static_cast<int64_t>(sites.size()) * c.accumulation;
    table.push_back({seam, {{std::move(shape), std::move(sites)}}});
  };
  add(Seam::rmsnorm, {rows, "f32", eps, {"w"}, {}, 0}, norms(c));
  add(Seam::residual_blend, {rows, "f32", {}, {}, {}, 0}, layers(c));
  add(Seam::ve_lookup_reshape,
      {{{"B", c.rows}, {"T", T}, {"V", c.vocab}, {"H", c.kv()}, {"D", D}}, "f32", {}, {}, {}, 0},
      layers_with_value_embedding(c));
  add(Seam::value_embed_gate,
      {{{"N", N}, {"K", c.kv()}, {"D", D}}, "f32", {}, {}, {{"x", {C, 1}}}, 0},
      layers_with_value_embedding(c));
  if (c.rotary == "rope_qk_fused") {
    add(Seam::rope_qk_fused, {rotated, "f32", eps, {}, {}, 0}, layers(c));
  } else {
    add(Seam::rotary_embedding, {rotated, "f32", {}, {}, {}, 0}, layers(c));
    add(Seam::qk_rmsnorm, {heads, "f32", eps, {}, {}, 0}, layers(c));
  }
  table.push_back({Seam::flash_attention, attention_calls(c, heads)});
  add(Seam::launch_fusion, {rows, "f32", {}, {}, {}, 0}, adds(c, false));
  add(Seam::residual_rmsnorm, {rows, "f32", eps, {}, {}, 0}, adds(c, true));
  add(Seam::activation_pointwise, {{{"N", N}, {"C", 4 * C}}, "f32", {}, {}, {}, 0}, layers(c));
  add(Seam::loss_prelude, {{{"N", N}, {"V", c.vocab}}, "f32", {{"softcap", c.softcap}}, {}, {}, 0},
      {0});
  return table;
}

std::vector<SeamDescription> describe_seams(const Config& c) {
  if (c.device == "cuda")
    return cuda_seams(c);  // the other regions have no CUDA kernel yet: plain code of the step
  std::vector<SeamDescription> list;
  for (const SeamUse& use : seam_table(c)) {
    const std::string key(contract_of(use.seam).key);
    SeamDescription description{key, key, {}};
    for (const SeamCalls& calls : use.calls) description.shapes.push_back(calls.shape);
    list.push_back(std::move(description));
  }
  return list;
}

}  // namespace kl::trainer
