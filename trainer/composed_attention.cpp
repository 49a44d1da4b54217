#include <trainer/composed_attention.hpp>

#include <trainer/blas.hpp>
#include <trainer/seam_table.hpp>

#include <algorithm>
#include <cmath>

namespace kl::trainer {

template <class R>
ComposedAttention<R>::ComposedAttention(const Config& c, Arena& arena, Seams<R>& seams)
    : seams_(seams),
      B(c.rows),
      T(c.sequence),
      H(c.heads()),
      K(c.kv()),
      D(c.head_dim),
      scale_(static_cast<R>(1 / std::sqrt(static_cast<double>(D)))),
      layers_(static_cast<size_t>(c.layers)) {
  const std::vector<int64_t> windows = distinct_windows(c);
  for (const int64_t w : windows)
    windows_.push_back(static_cast<int32_t>(std::min(w, T - 1)));  // further back there is nothing
  for (int64_t i = 0; i < c.layers; ++i) {
    Layer& l = layers_[static_cast<size_t>(i)];
    l.window = std::find(windows.begin(), windows.end(), c.window(i)) - windows.begin();
    arena.reserve(l.q, B * H * T * D);
    for (R** p : {&l.k, &l.v}) arena.reserve(*p, B * K * T * D);
    arena.reserve(l.p, B * H * T * T);
  }
  arena.reserve(mask_, static_cast<int64_t>(windows_.size()) * T * T);
  for (R** p : {&z_, &dp_}) arena.reserve(*p, B * H * T * T);
  for (R** p : {&o_, &do_, &dq_}) arena.reserve(*p, B * H * T * D);
  for (R** p : {&dk_, &dv_}) arena.reserve(*p, B * K * T * D);
}

template <class R>
template <class F>
void ComposedAttention<R>::for_each_head(F f) const {
  const int64_t group = H / K;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h) f(b * H + h, b * K + h / group, h % group == 0);
}

template <class R>
void ComposedAttention<R>::masks() {
  seams_.forward(Seam::attention_mask_local, 0, {windows_.data()}, {mask_});
}

template <class R>
void ComposedAttention<R>::forward(int64_t i, const R* q, const R* k, const R* v, R* o) {
  const Layer& l = layers_[static_cast<size_t>(i)];
  seams_.forward(Seam::proj_head_reshape, query_reshape(i), {q}, {l.q});
  seams_.forward(Seam::proj_head_reshape, key_reshape(i), {k}, {l.k});
  seams_.forward(Seam::proj_head_reshape, value_reshape(i), {v}, {l.v});
  for_each_head([&](int64_t head, int64_t kv, bool) {
    gemm('N', 'T', T, T, D, scale_, l.q + head * T * D, D, l.k + kv * T * D, D, R(0),
         z_ + head * T * T, T);
  });
  seams_.forward(Seam::softmax, layer_site(i), {z_, mask_ + l.window * T * T}, {l.p});
  for_each_head([&](int64_t head, int64_t kv, bool) {
    gemm('N', 'N', T, D, T, R(1), l.p + head * T * T, T, l.v + kv * T * D, D, R(0),
         o_ + head * T * D, D);
  });
  seams_.forward(Seam::data_movement, layer_site(i), {o_}, {o});
}

template <class R>
void ComposedAttention<R>::backward(int64_t i, const R* d_o, R* dq, R* dk, R* dv) {
  const Layer& l = layers_[static_cast<size_t>(i)];
  seams_.backward(Seam::data_movement, layer_site(i), {d_o}, {do_});
  for_each_head([&](int64_t head, int64_t kv, bool first) {
    gemm('N', 'T', T, T, D, R(1), do_ + head * T * D, D, l.v + kv * T * D, D, R(0),
         dp_ + head * T * T, T);
    gemm('T', 'N', T, D, T, R(1), l.p + head * T * T, T, do_ + head * T * D, D, R(first ? 0 : 1),
         dv_ + kv * T * D, D);
  });
  seams_.backward(Seam::softmax, layer_site(i), {dp_, l.p}, {z_});
  for_each_head([&](int64_t head, int64_t kv, bool first) {
    gemm('N', 'N', T, D, T, scale_, z_ + head * T * T, T, l.k + kv * T * D, D, R(0),
         dq_ + head * T * D, D);
    gemm('T', 'N', T, D, T, scale_, z_ + head * T * T, T, l.q + head * T * D, D, R(first ? 0 : 1),
         dk_ + kv * T * D, D);
  });
  seams_.backward(Seam::proj_head_reshape, query_reshape(i), {dq_}, {dq});
  seams_.backward(Seam::proj_head_reshape, key_reshape(i), {dk_}, {dk});
  seams_.backward(Seam::proj_head_reshape, value_reshape(i), {dv_}, {dv});
}

template class ComposedAttention<float>;
template class ComposedAttention<double>;

}  // namespace kl::trainer
