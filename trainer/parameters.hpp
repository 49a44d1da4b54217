// The parameters: one flat array, described by a layout; weights and gradients share the layout.
#pragma once

#include <lab/core/safetensors.hpp>
#include <trainer/config.hpp>

#include <span>

namespace kl::trainer {

// Tensors that share an optimiser setting.
enum class Group { head, embedding, value_embedding, matrix, lambda, mu };
enum class Initial { normal, normal_small, uniform, zero, one, tenth };

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  Group group;
  Initial initial;
  int64_t offset = 0;  // elements
  int64_t size = 0;
};

// Matrices of one shape that lie one after another, [count, rows, columns].
struct Stack {
  int64_t offset, count, rows, columns;
  int64_t size() const { return count * rows * columns; }
};
// Elements of one group that lie together.
struct Part {
  Group group;
  int64_t offset, size;
};

struct LayerOffsets {
  int64_t q, k, v, o, fc, proj, ve = -1, gate = -1;
};
struct Offsets {
  int64_t wte, lm_head, lambda, mu;
  std::vector<LayerOffsets> layers;
};

class Layout {
 public:
  explicit Layout(const Config& config);
  const std::vector<Parameter>& parameters() const { return parameters_; }
  int64_t size() const { return size_; }
  const Offsets& offsets() const { return offsets_; }
  // What Muon updates (nothing where the preset has AdamW for matrices), and AdamW what is left.
  std::vector<Stack> muon_stacks(const Config& config) const;
  std::vector<Part> adamw_parts(const Config& config) const;
  const Parameter& find(std::string_view name) const;  // an unknown name is a programmer's error

 private:
  int64_t add(std::string name, std::vector<int64_t> shape, Group group, Initial initial);
  std::vector<Parameter> parameters_;
  Offsets offsets_;
  int64_t size_ = 0;
};

// The parameters of a layout, as tensors.
std::vector<NamedTensor> named_tensors(const Layout& layout, std::span<float> weights);

template <class R>
struct LayerView {
  R* q;     // [H*D, C]
  R* k;     // [Hkv*D, C]
  R* v;     // [Hkv*D, C]
  R* o;     // [C, H*D]
  R* fc;    // [4C, C]
  R* proj;  // [C, 4C]
  R* ve;    // [V, Hkv*D], or null on layers without a value embedding
  R* gate;  // [Hkv, 32], or null
};

// Pointers into a flat array of the layout's size: weights or gradients.
template <class R>
class View {
 public:
  View(const Layout& layout, R* base) : layout_(layout), base_(base) {}
  R* wte() const { return base_ + layout_.offsets().wte; }          // [V, C]
  R* lm_head() const { return base_ + layout_.offsets().lm_head; }  // [V, C]
  R* lambda() const { return base_ + layout_.offsets().lambda; }    // [L]
  R* mu() const { return base_ + layout_.offsets().mu; }            // [L]
  LayerView<R> layer(int64_t i) const {
    const LayerOffsets& o = layout_.offsets().layers[static_cast<size_t>(i)];
    const auto maybe = [this](int64_t offset) { return offset < 0 ? nullptr : base_ + offset; };
    return {base_ + o.q,  base_ + o.k,    base_ + o.v, base_ + o.o,
            base_ + o.fc, base_ + o.proj, maybe(o.ve), maybe(o.gate)};
  }

 private:
  const Layout& layout_;
  R* base_;
};

// The same seed gives the same weights, whatever the number of threads.
void initialise(const Layout& layout, const Config& config, std::span<float> weights);

}  // namespace kl::trainer
