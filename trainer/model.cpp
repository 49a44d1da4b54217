#include <trainer/model.hpp>

#include <trainer/blas.hpp>
#include <trainer/seam_table.hpp>

#include <cstring>
#include <utility>

namespace kl::trainer {
namespace {

constexpr int64_t kGateColumns = 32;  // of the normed x, that the value gates read

std::vector<int32_t> padded(std::span<const int32_t> bytes, int64_t vocab) {
  std::vector<int32_t> result(bytes.begin(), bytes.end());
  result.resize(static_cast<size_t>(vocab), 0);
  return result;
}

}  // namespace

template <class R>
Model<R>::Model(const Config& c, const Layout& layout, Seams<R>& seams,
                std::span<const int32_t> token_bytes)
    : layout_(layout),
      seams_(seams),
      token_bytes_(padded(token_bytes, c.vocab)),
      B(c.rows),
      T(c.sequence),
      N(c.tokens()),
      C(c.width),
      V(c.vocab),
      L(c.layers),
      H(c.heads()),
      K(c.kv()),
      D(c.head_dim),
      rotary_fused_(c.rotary == "rope_qk_fused"),
      second_norm_fused_(c.second_norm == "residual_rmsnorm"),
      final_add_fused_(c.mlp_output == "residual_rmsnorm") {
  layers_.resize(static_cast<size_t>(L));
  for (int64_t i = 0; i < L; ++i) {
    Layer& l = layer(i);
    for (R** p : {&l.x, &l.xb, &l.n1, &l.q0, &l.q, &l.o, &l.xa, &l.n2}) arena_.reserve(*p, N * C);
    for (R** p : {&l.k0, &l.k, &l.v}) arena_.reserve(*p, N * K * D);
    if (c.has_value_embedding(i))
      for (R** p : {&l.v0, &l.ve}) arena_.reserve(*p, N * K * D);
    if (!rotary_fused_) {
      arena_.reserve(l.qr, N * C);
      arena_.reserve(l.kr, N * K * D);
    }
    for (R** p : {&l.h, &l.a}) arena_.reserve(*p, N * 4 * C);
    arena_.reserve(l.lse, N * H);
  }
  for (R** p :
       {&embedded_, &x0_, &x_, &nf_, &update_, &dx_, &dother_, &dx0_, &dn_, &dq_, &dq0_, &do_})
    arena_.reserve(*p, N * C);
  for (R** p : {&dk_, &dk0_, &dv_, &dve_}) arena_.reserve(*p, N * K * D);
  for (R** p : {&da_, &dh_}) arena_.reserve(*p, N * 4 * C);
  for (R** p : {&logits_, &dlogits_}) arena_.reserve(*p, N * V);
  for (R** p : {&cosine_, &sine_}) arena_.reserve(*p, T * D / 2);
  arena_.reserve(nll_, N);
  arena_.reserve(dgate_, N * kGateColumns);
  arena_.commit();
  for (Layer& l : layers_)
    if (l.v0 == nullptr) l.v0 = l.v;
  rotary_tables(cosine_, sine_, T, D);
}

template <class R>
double Model<R>::forward(const R* weights, const int32_t* tokens, const int32_t* targets) {
  const View<const R> w(layout_, weights);
  gather(embedded_, w.wte(), tokens, N, C);
  seams_.forward(Seam::rmsnorm, embedding_norm(), {embedded_, nullptr}, {x0_});
  std::memcpy(layer(0).x, x0_, static_cast<size_t>(N * C) * sizeof(R));
  for (int64_t i = 0; i < L; ++i) {
    block_start(i, w);
    projections(i, w, tokens);
    rotary(i);
    attention(i);
    attention_output(i, w);
    mlp(i, w);
  }
  if (!final_add_fused_) seams_.forward(Seam::rmsnorm, final_norm(L), {x_, nullptr}, {nf_});
  matmul(logits_, nf_, w.lm_head(), N, C, V);
  seams_.forward(Seam::loss_prelude, 0, {logits_, targets, token_bytes_.data()},
                 {nll_, &nll_sum_, &byte_sum_});
  double sum = 0;
  int64_t valid = 0;
  for (int64_t n = 0; n < N; ++n) {
    sum += static_cast<double>(nll_[n]);
    valid += targets[n] >= 0;
  }
  return valid == 0 ? 0 : sum / static_cast<double>(valid);
}

template <class R>
void Model<R>::backward(const R* weights, R* gradients, const int32_t* tokens,
                        const int32_t* targets, R scale) {
  const View<const R> w(layout_, weights);
  const View<R> g(layout_, gradients);
  seams_.backward(Seam::loss_prelude, 0, {&scale, logits_, targets}, {dlogits_});
  matmul_dx(dn_, dlogits_, w.lm_head(), N, C, V);
  matmul_dw(g.lm_head(), dlogits_, nf_, N, C, V);
  if (final_add_fused_) {
    std::memset(dx_, 0,
                static_cast<size_t>(N * C) * sizeof(R));  // nothing but the norm reads the last sum
    norm_backward(final_norm(L), true, mlp_add(L - 1), x_);
  } else {
    seams_.backward(Seam::rmsnorm, final_norm(L), {dn_, x_, nullptr}, {dx_, nullptr});
  }
  std::memset(dx0_, 0, static_cast<size_t>(N * C) * sizeof(R));
  for (int64_t i = L - 1; i >= 0; --i) {
    mlp_backward(i, w, g);
    attention_output_backward(i, w, g);
    attention_backward(i);
    rotary_backward(i);
    projections_backward(i, w, g, tokens);
    block_start_backward(i, w, g);
  }
  add(dx0_, dx_, N * C);
  seams_.backward(Seam::rmsnorm, embedding_norm(), {dx0_, embedded_, nullptr}, {dn_, nullptr});
  gather_backward(g.wte(), dn_, tokens, N, C);
}

template <class R>
void Model<R>::block_start(int64_t i, const View<const R>& w) {
  const Layer& l = layer(i);
  seams_.forward(Seam::residual_blend, layer_site(i), {l.x, x0_, w.lambda() + i, w.mu() + i},
                 {l.xb});
  seams_.forward(Seam::rmsnorm, first_norm(i), {l.xb, nullptr}, {l.n1});
}

template <class R>
void Model<R>::block_start_backward(int64_t i, const View<const R>& w, const View<R>& g) {
  const Layer& l = layer(i);
  norm_backward(first_norm(i), false, 0, l.xb);
  seams_.backward(Seam::residual_blend, layer_site(i), {dx_, l.x, x0_, w.lambda() + i, w.mu() + i},
                  {dother_, dx0_, g.lambda() + i, g.mu() + i});
  std::swap(dx_, dother_);
}

template <class R>
void Model<R>::projections(int64_t i, const View<const R>& w, const int32_t* tokens) {
  const Layer& l = layer(i);
  const LayerView<const R> m = w.layer(i);
  matmul(l.q0, l.n1, m.q, N, C, C);
  matmul(l.k0, l.n1, m.k, N, C, K * D);
  matmul(l.v0, l.n1, m.v, N, C, K * D);
  if (!has_value_embedding(i)) return;
  seams_.forward(Seam::ve_lookup_reshape, layer_site(i), {tokens, m.ve}, {l.ve});
  seams_.forward(Seam::value_embed_gate, layer_site(i), {l.n1, l.v0, l.ve, m.gate}, {l.v});
}

// From dq0_, dk0_ and dv_ to dn_, the gradient of n1. The gate adds to v: dv_ is v0's gradient too.
template <class R>
void Model<R>::projections_backward(int64_t i, const View<const R>& w, const View<R>& g,
                                    const int32_t* tokens) {
  const Layer& l = layer(i);
  const LayerView<const R> m = w.layer(i);
  const LayerView<R> dm = g.layer(i);
  matmul_dx(dn_, dq0_, m.q, N, C, C);
  matmul_dx(dn_, dk0_, m.k, N, C, K * D, R(1));
  matmul_dx(dn_, dv_, m.v, N, C, K * D, R(1));
  matmul_dw(dm.q, dq0_, l.n1, N, C, C);
  matmul_dw(dm.k, dk0_, l.n1, N, C, K * D);
  matmul_dw(dm.v, dv_, l.n1, N, C, K * D);
  if (!has_value_embedding(i)) return;
  seams_.backward(Seam::value_embed_gate, layer_site(i), {dv_, l.n1, l.ve, m.gate},
                  {dgate_, dve_, dm.gate});
  seams_.backward(Seam::ve_lookup_reshape, layer_site(i), {dve_, tokens}, {dm.ve});
  add_columns(dn_, dgate_, N, C, kGateColumns);
}

template <class R>
void Model<R>::rotary(int64_t i) {
  const Layer& l = layer(i);
  if (rotary_fused_) {
    seams_.forward(Seam::rope_qk_fused, layer_site(i), {l.q0, l.k0, cosine_, sine_}, {l.q, l.k});
  } else {
    seams_.forward(Seam::rotary_embedding, layer_site(i), {l.q0, l.k0, cosine_, sine_},
                   {l.qr, l.kr});
    seams_.forward(Seam::qk_rmsnorm, layer_site(i), {l.qr, l.kr}, {l.q, l.k});
  }
}

template <class R>
void Model<R>::rotary_backward(int64_t i) {
  const Layer& l = layer(i);
  if (rotary_fused_) {
    seams_.backward(Seam::rope_qk_fused, layer_site(i), {dq_, dk_, l.q0, l.k0, cosine_, sine_},
                    {dq0_, dk0_});
  } else {
    seams_.backward(Seam::qk_rmsnorm, layer_site(i), {dq_, dk_, l.qr, l.kr}, {dother_, dve_});
    seams_.backward(Seam::rotary_embedding, layer_site(i), {dother_, dve_, cosine_, sine_},
                    {dq0_, dk0_});
  }
}

template <class R>
void Model<R>::attention(int64_t i) {
  const Layer& l = layer(i);
  seams_.forward(Seam::flash_attention, layer_site(i), {l.q, l.k, l.v}, {l.o, l.lse});
}

template <class R>
void Model<R>::attention_backward(int64_t i) {
  const Layer& l = layer(i);
  seams_.backward(Seam::flash_attention, layer_site(i), {do_, l.q, l.k, l.v, l.o, l.lse},
                  {dq_, dk_, dv_});
}

// The output projection, the add and the second norm.
template <class R>
void Model<R>::attention_output(int64_t i, const View<const R>& w) {
  const Layer& l = layer(i);
  matmul(update_, l.o, w.layer(i).o, N, C, C);
  if (second_norm_fused_) {
    seams_.forward(Seam::residual_rmsnorm, attention_add(i), {l.xb, update_}, {l.xa, l.n2});
  } else {
    seams_.forward(Seam::launch_fusion, attention_add(i), {l.xb, update_}, {l.xa});
    seams_.forward(Seam::rmsnorm, second_norm(i), {l.xa, nullptr}, {l.n2});
  }
}

template <class R>
void Model<R>::attention_output_backward(int64_t i, const View<const R>& w, const View<R>& g) {
  const Layer& l = layer(i);
  norm_backward(second_norm(i), second_norm_fused_, attention_add(i), l.xa);
  matmul_dx(do_, dx_, w.layer(i).o, N, C, C);
  matmul_dw(g.layer(i).o, dx_, l.o, N, C, C);
}

template <class R>
void Model<R>::mlp(int64_t i, const View<const R>& w) {
  const Layer& l = layer(i);
  matmul(l.h, l.n2, w.layer(i).fc, N, C, 4 * C);
  seams_.forward(Seam::activation_pointwise, layer_site(i), {l.h}, {l.a});
  matmul(update_, l.a, w.layer(i).proj, N, 4 * C, C);
  if (last_add_norms(i))
    seams_.forward(Seam::residual_rmsnorm, mlp_add(i), {l.xa, update_}, {x_, nf_});
  else
    seams_.forward(Seam::launch_fusion, mlp_add(i), {l.xa, update_}, {layer_output(i)});
}

template <class R>
void Model<R>::mlp_backward(int64_t i, const View<const R>& w, const View<R>& g) {
  const Layer& l = layer(i);
  matmul_dx(da_, dx_, w.layer(i).proj, N, 4 * C, C);
  matmul_dw(g.layer(i).proj, dx_, l.a, N, 4 * C, C);
  seams_.backward(Seam::activation_pointwise, layer_site(i), {da_, l.h}, {dh_});
  matmul_dx(dn_, dh_, w.layer(i).fc, N, C, 4 * C);
  matmul_dw(g.layer(i).fc, dh_, l.n2, N, C, 4 * C);
}

template <class R>
void Model<R>::norm_backward(int norm_site, bool fused, int add_site, const R* sum) {
  if (fused) {
    seams_.backward(Seam::residual_rmsnorm, add_site, {dx_, dn_, sum}, {dother_});
    std::swap(dx_, dother_);
  } else {
    seams_.backward(Seam::rmsnorm, norm_site, {dn_, sum, nullptr}, {dother_, nullptr});
    add(dx_, dother_, N * C);
  }
}

template class Model<float>;
template class Model<double>;

}  // namespace kl::trainer
