// Attention in parts, head-major: projections reshaped, masked softmax of the scores between matrix
// products, and the heads packed again. What flash_attention does in one seam.
#pragma once

#include <trainer/arena.hpp>
#include <trainer/config.hpp>
#include <trainer/seam.hpp>

#include <vector>

namespace kl::trainer {

template <class R>
class ComposedAttention {
 public:
  // Reserves its memory in `arena`, which the owner commits: this object must not move.
  ComposedAttention(const Config& config, Arena& arena, Seams<R>& seams);
  ComposedAttention(const ComposedAttention&) = delete;

  void masks();  // once a forward pass
  // q [B,T,H,D], k and v [B,T,K,D] -> o [B,T,H,D]
  void forward(int64_t layer, const R* q, const R* k, const R* v, R* o);
  void backward(int64_t layer, const R* d_o, R* dq, R* dk, R* dv);

 private:
  struct Layer {
    R *q, *k, *v;  // [B,H,T,D], [B,K,T,D]
    R* p;          // [B,H,T,T]
    int64_t window = 0;
  };
  // f(query head, its key head, whether it is the first of that key head)
  template <class F>
  void for_each_head(F f) const;

  Seams<R>& seams_;
  const int64_t B, T, H, K, D;
  const R scale_;
  std::vector<int32_t> windows_;  // distinct
  std::vector<Layer> layers_;
  R *mask_, *z_, *o_, *dp_, *do_, *dq_, *dk_, *dv_;
};

extern template class ComposedAttention<float>;
extern template class ComposedAttention<double>;

}  // namespace kl::trainer
