#include <trainer/parameters.hpp>

#include <trainer/random.hpp>

#include <cmath>
#include <numbers>

namespace kl::trainer {

// Tensors that are updated alike lie together: stacks of one shape, and the value embeddings.
Layout::Layout(const Config& c) {
  const int64_t V = c.vocab, C = c.width, K = c.kv_width();
  offsets_.layers.resize(static_cast<size_t>(c.layers));
  const auto each_layer = [&](auto&& with_layer) {
    for (int64_t i = 0; i < c.layers; ++i)
      with_layer(i, "layers." + std::to_string(i) + ".", offsets_.layers[static_cast<size_t>(i)]);
  };
  offsets_.wte = add("wte", {V, C}, Group::embedding, Initial::normal);
  offsets_.lm_head = add("lm_head", {V, C}, Group::head, Initial::normal_small);
  each_layer([&](int64_t i, const std::string& layer, LayerOffsets& o) {
    if (c.has_value_embedding(i))
      o.ve = add(layer + "ve", {V, K}, Group::value_embedding, Initial::uniform);
  });
  each_layer([&](int64_t, const std::string& layer, LayerOffsets& o) {
    o.q = add(layer + "q", {C, C}, Group::matrix, Initial::uniform);
    o.o = add(layer + "o", {C, C}, Group::matrix, Initial::zero);
  });
  each_layer([&](int64_t, const std::string& layer, LayerOffsets& o) {
    o.k = add(layer + "k", {K, C}, Group::matrix, Initial::uniform);
    o.v = add(layer + "v", {K, C}, Group::matrix, Initial::uniform);
  });
  each_layer([&](int64_t, const std::string& layer, LayerOffsets& o) {
    o.fc = add(layer + "fc", {4 * C, C}, Group::matrix, Initial::uniform);
  });
  each_layer([&](int64_t, const std::string& layer, LayerOffsets& o) {
    o.proj = add(layer + "proj", {C, 4 * C}, Group::matrix, Initial::zero);
  });
  each_layer([&](int64_t i, const std::string& layer, LayerOffsets& o) {
    if (c.has_value_embedding(i))
      o.gate = add(layer + "gate", {c.kv(), 32}, Group::matrix, Initial::zero);
  });
  offsets_.lambda = add("lambda", {c.layers}, Group::lambda, Initial::one);
  offsets_.mu = add("mu", {c.layers}, Group::mu, Initial::tenth);
}

std::vector<Stack> Layout::muon_stacks(const Config& c) const {
  std::vector<Stack> stacks;
  if (c.matrix_optimiser != "muon") return stacks;
  for (const Parameter& p : parameters_) {
    if (p.group != Group::matrix) continue;
    const bool continues = !stacks.empty() && stacks.back().rows == p.shape[0] &&
                           stacks.back().columns == p.shape[1] &&
                           stacks.back().offset + stacks.back().size() == p.offset;
    if (continues)
      ++stacks.back().count;
    else
      stacks.push_back({p.offset, 1, p.shape[0], p.shape[1]});
  }
  return stacks;
}

std::vector<Part> Layout::adamw_parts(const Config& c) const {
  std::vector<Part> parts;
  for (const Parameter& p : parameters_) {
    if (p.group == Group::matrix && c.matrix_optimiser == "muon") continue;
    const bool continues = !parts.empty() && parts.back().group == p.group &&
                           parts.back().offset + parts.back().size == p.offset;
    if (continues)
      parts.back().size += p.size;
    else
      parts.push_back({p.group, p.offset, p.size});
  }
  return parts;
}

int64_t Layout::add(std::string name, std::vector<int64_t> shape, Group group, Initial initial) {
  int64_t size = 1;
  for (const int64_t length : shape) size *= length;
  parameters_.push_back({std::move(name), std::move(shape), group, initial, size_, size});
  size_ += size;
  return size_ - size;
}

const Parameter& Layout::find(std::string_view name) const {
  for (const Parameter& p : parameters_)
    if (p.name == name) return p;
  throw std::logic_error("no parameter named " + std::string(name));
}

void initialise(const Layout& layout, const Config& config, std::span<float> weights) {
  const double bound = std::sqrt(3.0 / static_cast<double>(config.width));
  uint64_t index = 0;
  for (const Parameter& p : layout.parameters()) {
    float* w = weights.data() + p.offset;
    const uint64_t key = mix64(mix64(static_cast<uint64_t>(config.seed)) + ++index);
    const auto uniform = [key](int64_t i) { return unit(mix64(key + static_cast<uint64_t>(i))); };
    const auto normal = [&uniform](int64_t i) {  // Box and Muller, 1958
      return std::sqrt(-2 * std::log(1 - uniform(2 * i))) *
             std::cos(2 * std::numbers::pi * uniform(2 * i + 1));
    };
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < p.size; ++i) {
      double value = 0;
      switch (p.initial) {
        case Initial::normal: value = normal(i); break;
        case Initial::normal_small: value = 0.001 * normal(i); break;
        case Initial::uniform: value = bound * (2 * uniform(i) - 1); break;
        case Initial::zero: value = 0; break;
        case Initial::one: value = 1; break;
        case Initial::tenth: value = 0.1; break;
      }
      w[i] = static_cast<float>(value);
    }
  }
}

std::vector<NamedTensor> named_tensors(const Layout& layout, std::span<float> weights) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& p : layout.parameters())
    tensors.push_back({p.name, p.shape, weights.subspan(static_cast<size_t>(p.offset), static_cast<size_t>(p.size))});
  return tensors;
}

}  // namespace kl::trainer
