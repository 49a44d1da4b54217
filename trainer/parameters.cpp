#include <trainer/parameters.hpp>

#include <trainer/random.hpp>

#include <cmath>
#include <numbers>

namespace kl::trainer {

Layout::Layout(const Config& c) {
  const int64_t V = c.vocab, C = c.width, K = c.kv_width();
  offsets_.wte = add("wte", {V, C}, Group::embedding, Initial::normal);
  offsets_.lm_head = add("lm_head", {V, C}, Group::head, Initial::normal_small);
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    LayerOffsets o;
    o.q = add(layer + "q", {C, C}, Group::matrix, Initial::uniform);
    o.k = add(layer + "k", {K, C}, Group::matrix, Initial::uniform);
    o.v = add(layer + "v", {K, C}, Group::matrix, Initial::uniform);
    o.o = add(layer + "o", {C, C}, Group::matrix, Initial::zero);
    o.fc = add(layer + "fc", {4 * C, C}, Group::matrix, Initial::uniform);
    o.proj = add(layer + "proj", {C, 4 * C}, Group::matrix, Initial::zero);
    if (c.has_value_embedding(i)) {
      o.ve = add(layer + "ve", {V, K}, Group::value_embedding, Initial::uniform);
      o.gate = add(layer + "gate", {c.kv(), 32}, Group::matrix, Initial::zero);
    }
    offsets_.layers.push_back(o);
  }
  offsets_.lambda = add("lambda", {c.layers}, Group::lambda, Initial::one);
  offsets_.mu = add("mu", {c.layers}, Group::mu, Initial::tenth);
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

}  // namespace kl::trainer
