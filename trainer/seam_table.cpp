#include <trainer/seam_table.hpp>

#include <trainer/parameters.hpp>
#include <trainer/regions.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

namespace kl::trainer {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

// The norms that are not part of another seam.
std::vector<int> norms(const Config& c, const Regions& r) {
  std::vector<int> sites = {embedding_norm()};
  for (int64_t i = 0; i < c.layers; ++i) {
    if (!r.block_prelude) sites.push_back(first_norm(i));
    if (!r.second_norm) sites.push_back(second_norm(i));
  }
  if (!r.final_norm) sites.push_back(final_norm(c.layers));
  return sites;
}

// The adds that are not part of a matrix product; those with a norm are another seam.
std::vector<int> adds(const Config& c, const Regions& r, bool with_norm) {
  std::vector<int> sites;
  for (int64_t i = 0; i < c.layers; ++i) {
    if (!r.output_epilogue && r.second_norm == with_norm) sites.push_back(attention_add(i));
    const bool fused = r.final_norm && i == c.layers - 1;
    if (!r.mlp_epilogue && fused == with_norm) sites.push_back(mlp_add(i));
  }
  return sites;
}

std::vector<int> layers(const Config& c) {
  std::vector<int> sites;
  for (int64_t i = 0; i < c.layers; ++i) sites.push_back(layer_site(i));
  return sites;
}

std::vector<int> layers_with_value_embedding(const Config& c, bool with) {
  std::vector<int> sites;
  for (int64_t i = 0; i < c.layers; ++i)
    if (c.has_value_embedding(i) == with) sites.push_back(layer_site(i));
  return sites;
}

// Collects the seams of a preset; what has no site is left out.
class Table {
 public:
  explicit Table(const Config& config) : config_(config) {}

  // Every operation runs at every site, once a micro-batch.
  void add(Seam seam, SeamShape shape, std::vector<int> sites) {
    for (const SeamOperation& operation : contract_of(seam).all())
      shape.calls_per_step[std::string(operation.name)] =
          static_cast<int64_t>(sites.size()) * config_.accumulation;
    place(seam, std::move(shape), std::move(sites));
  }
  // `shape` says how often a step calls what.
  void place(Seam seam, SeamShape shape, std::vector<int> sites) {
    if (sites.empty()) return;
    for (SeamUse& use : uses_)
      if (use.seam == seam) {
        use.calls.push_back({std::move(shape), std::move(sites)});
        return;
      }
    uses_.push_back({seam, {{std::move(shape), std::move(sites)}}});
  }
  std::vector<SeamUse> take() { return std::move(uses_); }

 private:
  const Config& config_;
  std::vector<SeamUse> uses_;
};

using Axes = std::map<std::string, int64_t>;

SeamShape shape_of(Axes axes) { return {std::move(axes), "f32", {}, {}, {}, {}}; }

Axes with(Axes axes, const Axes& more) {
  axes.insert(more.begin(), more.end());
  return axes;
}

void add_block_start(Table& table, const Config& c, const Regions& r) {
  const Axes batch{{"B", c.rows}, {"T", c.sequence}};
  const Axes heads{{"H", c.heads()}, {"K", c.kv()}, {"D", c.head_dim}};
  const Axes halves{{"D2", c.head_dim / 2}}, rows{{"N", c.tokens()}, {"C", c.width}};
  const auto absent = [](SeamShape shape) {
    shape.absent = {"ve", "wg"};
    return shape;
  };
  SeamShape lookup = shape_of(with(batch, {{"V", c.vocab}, {"H", c.kv()}, {"D", c.head_dim}}));
  table.add(Seam::ve_lookup_reshape, lookup, layers_with_value_embedding(c, true));
  if (r.block_prelude) {
    SeamShape block = shape_of(with(with(with(batch, heads), halves), {{"C", c.width}}));
    block.scalars = {{"eps", c.eps}};
    table.add(Seam::block_prelude, block, layers_with_value_embedding(c, true));
    table.add(Seam::block_prelude, absent(block), layers_with_value_embedding(c, false));
    return;
  }
  table.add(Seam::residual_blend, shape_of(rows), layers(c));
  if (r.attention_prelude) {
    const SeamShape projections = shape_of(with(rows, heads));
    table.add(Seam::attention_prelude, projections, layers_with_value_embedding(c, true));
    table.add(Seam::attention_prelude, absent(projections), layers_with_value_embedding(c, false));
  } else {
    SeamShape gate = shape_of({{"N", c.tokens()}, {"K", c.kv()}, {"D", c.head_dim}});
    gate.strides = {{"x", {c.width, 1}}};
    table.add(Seam::value_embed_gate, gate, layers_with_value_embedding(c, true));
  }
  SeamShape normed = shape_of(with(batch, heads)), rotated = shape_of(with(with(batch, heads), halves));
  normed.scalars = {{"eps", c.eps}};
  if (r.rope_qk_fused) {
    rotated.scalars = {{"eps", c.eps}};
    table.add(Seam::rope_qk_fused, rotated, layers(c));
  } else {
    table.add(Seam::rotary_embedding, rotated, layers(c));
    table.add(Seam::qk_rmsnorm, normed, layers(c));
  }
}

void add_attention(Table& table, const Config& c, const Regions& r) {
  const int64_t B = c.rows, T = c.sequence, H = c.heads(), K = c.kv(), D = c.head_dim;
  if (r.flash_attention) {
    std::map<int64_t, std::vector<int>> by_window;  // layers of one window are one shape
    for (int64_t i = 0; i < c.layers; ++i) by_window[c.window(i)].push_back(layer_site(i));
    for (auto& [window, sites] : by_window) {
      SeamShape shape = shape_of({{"B", B}, {"T", T}, {"H", H}, {"K", K}, {"D", D}});
      shape.scalars = {{"window", static_cast<double>(window)},
                       {"scale", 1 / std::sqrt(static_cast<double>(D))}};
      table.add(Seam::flash_attention, std::move(shape), std::move(sites));
    }
    return;
  }
  std::vector<int> queries, others;
  for (int64_t i = 0; i < c.layers; ++i) {
    queries.push_back(query_reshape(i));
    others.insert(others.end(), {key_reshape(i), value_reshape(i)});
  }
  if (H == K) queries.insert(queries.end(), others.begin(), others.end());
  table.add(Seam::proj_head_reshape, shape_of({{"B", B}, {"T", T}, {"H", H}, {"D", D}}), queries);
  if (H != K)
    table.add(Seam::proj_head_reshape, shape_of({{"B", B}, {"T", T}, {"H", K}, {"D", D}}), others);
  const auto windows = static_cast<int64_t>(distinct_windows(c).size());
  table.add(Seam::attention_mask_local, shape_of({{"L", windows}, {"T", T}}), {0});
  table.add(Seam::softmax, shape_of({{"N", B * H}, {"T", T}, {"K", T}}), layers(c));
  SeamShape packing = shape_of({{"B", B}, {"T", T}, {"H", H}, {"D", D}, {"E", H * D}});
  packing.strides["x"] = packing.strides["dx"] = {H * T * D, D, T * D, 1};  // [B,H,T,D]
  table.add(Seam::data_movement, std::move(packing), layers(c));
}

void add_outputs_and_mlp(Table& table, const Config& c, const Regions& r) {
  const int64_t N = c.tokens(), C = c.width;
  const Axes rows{{"N", N}, {"C", C}};
  const auto product = [&](int64_t in, int64_t out, bool residual) {
    SeamShape shape = shape_of({{"M", N}, {"K", in}, {"P", out}});
    shape.absent = {"bias"};
    if (!residual) shape.absent.push_back("residual");
    return shape;
  };
  std::vector<int> attention, mlp;
  for (int64_t i = 0; i < c.layers; ++i) {
    attention.push_back(attention_add(i));
    mlp.push_back(mlp_add(i));
  }
  if (r.output_epilogue) table.add(Seam::matmul_epilogue, product(C, C, true), attention);
  if (r.mlp_epilogue) table.add(Seam::matmul_epilogue, product(4 * C, C, true), mlp);
  if (r.lm_head_epilogue)
    table.add(Seam::matmul_epilogue, product(C, c.vocab, false), {lm_head_site(c.layers)});
  table.add(Seam::launch_fusion, shape_of(rows), adds(c, r, false));
  SeamShape normed = shape_of(rows);
  normed.scalars = {{"eps", c.eps}};
  table.add(Seam::residual_rmsnorm, normed, adds(c, r, true));
  if (r.fused_mlp)
    table.add(Seam::fused_mlp, shape_of(with(rows, {{"F", 4 * C}})), layers(c));
  else
    table.add(Seam::activation_pointwise, shape_of({{"N", N}, {"C", 4 * C}}), layers(c));
}

void add_loss(Table& table, const Config& c, const Regions& r) {
  const int64_t N = c.tokens();
  SeamShape logits = shape_of({{"N", N}, {"V", c.vocab}}), plain = logits;
  logits.scalars = {{"softcap", c.softcap}};
  if (r.cross_entropy_full) {
    logits.axes["C"] = c.width;
    table.add(Seam::cross_entropy_full, logits, {0});
  } else if (r.loss_prelude) {
    table.add(Seam::loss_prelude, logits, {0});
  } else {
    table.add(Seam::logits_softcap, logits, {0});
    table.add(Seam::cross_entropy_prelude, plain, {0});
    SeamShape sum = shape_of({{"N", 1}, {"C", N}});
    sum.absent = {"rows"};
    sum.calls_per_step = {{"sum", c.accumulation}};
    table.place(Seam::reduce, sum, {loss_sum()});
  }
}

// Once a step, over all micro-batches. A tensor and a stack share a shape: each operation has axes of
// its own, and those of the one that is not called there are 1.
void add_update(Table& table, const Config& c) {
  const Layout layout(c);
  SeamShape squares = shape_of({{"N", 1}, {"C", layout.size()}});
  squares.absent = {"rows"};
  squares.calls_per_step = {{"sum_of_squares", 1}};
  table.place(Seam::reduce, squares, {gradient_norm()});
  const std::vector<Part> tensors = layout.adamw_parts(c);
  const std::vector<Stack> stacks = layout.muon_stacks(c);
  for (size_t k = 0; k < std::max(tensors.size(), stacks.size()); ++k) {
    SeamShape shape = shape_of({{"N", 1}, {"S", 1}, {"R", 1}, {"C", 1}, {"M", 1}});
    if (k < tensors.size()) {
      shape.axes["N"] = tensors[k].size;
      shape.calls_per_step["adamw"] = 1;
    }
    if (k < stacks.size()) {
      const Stack& s = stacks[k];
      shape.axes["S"] = s.count;
      shape.axes["R"] = s.rows;
      shape.axes["C"] = s.columns;
      shape.axes["M"] = std::max(s.rows, s.columns);
      shape.calls_per_step["muon"] = 1;
    }
    table.place(Seam::optimizer_update, std::move(shape), {static_cast<int>(k)});
  }
}

std::vector<SeamDescription> cuda_seams(const Config& c) {
  const auto both = [](int64_t calls) {
    return std::map<std::string, int64_t>{{"forward", calls}, {"backward", calls}};
  };
  SeamShape norm{{{"N", c.tokens()}, {"C", c.width}}, "bf16", {{"eps", c.eps}}, {"w"}, {},
                 both((2 * c.layers + 2) * c.accumulation)};
  SeamShape loss{{{"N", c.loss_chunk()}, {"V", c.vocab}},
                 "bf16",
                 {{"softcap", c.softcap}},
                 {},
                 {},
                 both(c.tokens() / c.loss_chunk() * c.accumulation)};
  return {{"rmsnorm", "rmsnorm", {norm}, {}}, {"loss_prelude", "loss_prelude", {loss}, {}}};
}

std::optional<SeamDescription> describe(const std::vector<SeamUse>& table, const SeamContract& contract) {
  for (const SeamUse& use : table) {
    if (use.seam != contract.seam) continue;
    SeamDescription description{std::string(contract.key), std::string(contract.key), {}, {}};
    for (const SeamCalls& calls : use.calls) description.shapes.push_back(calls.shape);
    return description;
  }
  return {};
}

// Changes no more of the preset than the seam needs.
std::optional<SeamDescription> describe_opened(Config c, const SeamContract& contract) {
  std::map<std::string, std::string> opened_by;
  for (const std::string& setting : words(contract.opened_by)) {
    const Config before = c;
    if (!apply_setting(c, setting).ok()) return {};
    const size_t equals = setting.find('=');
    if (to_json(before) != to_json(c)) opened_by[setting.substr(0, equals)] = setting.substr(equals + 1);
    if (!check_regions(c).ok()) continue;
    if (auto description = describe(seam_table(c), contract)) {
      description->opened_by = std::move(opened_by);
      return description;
    }
  }
  return {};
}

}  // namespace

std::vector<int64_t> distinct_windows(const Config& c) {
  std::set<int64_t> windows;
  for (int64_t i = 0; i < c.layers; ++i) windows.insert(c.window(i));
  return {windows.begin(), windows.end()};
}

std::vector<SeamUse> seam_table(const Config& c) {
  const Regions r(c);
  Table table(c);
  SeamShape norm = shape_of({{"N", c.tokens()}, {"C", c.width}});
  norm.scalars = {{"eps", c.eps}};
  norm.absent = {"w"};
  table.add(Seam::rmsnorm, norm, norms(c, r));
  add_block_start(table, c, r);
  add_attention(table, c, r);
  add_outputs_and_mlp(table, c, r);
  add_loss(table, c, r);
  add_update(table, c);
  return table.take();
}

std::vector<SeamDescription> describe_seams(const Config& c) {
  if (c.device == "cuda")
    return cuda_seams(c);  // the other regions have no CUDA kernel yet: plain code of the step
  std::vector<SeamDescription> list;
  const std::vector<SeamUse> table = seam_table(c);
  for (const SeamContract& contract : contracts())
    if (auto description = describe(table, contract)) list.push_back(std::move(*description));
  return list;
}

std::vector<SeamDescription> describe_shadowed_seams(const Config& c) {
  std::vector<SeamDescription> list;
  if (c.device == "cuda") return list;
  const std::vector<SeamUse> table = seam_table(c);
  for (const SeamContract& contract : contracts()) {
    if (describe(table, contract)) continue;
    if (auto description = describe_opened(c, contract)) list.push_back(std::move(*description));
  }
  return list;
}

}  // namespace kl::trainer
