#include <trainer/model.hpp>

#include <trainer/blas.hpp>
#include <trainer/range_log.hpp>
#include <trainer/seam_table.hpp>

#include <algorithm>
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

template <class R>
void clear(R* values, int64_t size) {
  const RangeScope range(Pass::clear);
  std::memset(values, 0, static_cast<size_t>(size) * sizeof(R));
}

}  // namespace

template <class R>
Model<R>::Model(const Config& c, const Layout& layout, Seams<R>& seams,
                std::span<const int32_t> token_bytes, Memory memory)
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
      r_(c),
      layers_(static_cast<size_t>(L)) {
  for (int64_t i = 0; i < L; ++i) reserve_layer(layer(i), c.has_value_embedding(i));
  if (!r_.flash_attention) parts_of_attention_.emplace(c, arena_, seams_);
  for (R** p :
       {&embedded_, &x0_, &x_, &nf_, &update_, &dx_, &dother_, &dx0_, &dn_, &dq_, &dq0_, &do_})
    arena_.reserve(*p, N * C);
  for (R** p : {&dk_, &dk0_, &dv_, &dve_}) arena_.reserve(*p, N * K * D);
  if (!r_.fused_mlp)
    for (R** p : {&da_, &dh_}) arena_.reserve(*p, N * 4 * C);
  if (!r_.cross_entropy_full)
    for (R** p : {&logits_, &dlogits_}) arena_.reserve(*p, N * V);
  if (!r_.cross_entropy_full && !r_.loss_prelude) {
    for (R** p : {&capped_, &dcapped_}) arena_.reserve(*p, N * V);
    for (R** p : {&row_max_, &row_lse_, &target_logit_, &dlse_, &dtarget_logit_}) arena_.reserve(*p, N);
  }
  for (R** p : {&cosine_, &sine_}) arena_.reserve(*p, T * D / 2);
  arena_.reserve(nll_, N);
  arena_.reserve(dgate_, N * kGateColumns);
  if (memory == Memory::planned) return;
  arena_.commit();
  for (Layer& l : layers_)
    if (l.v0 == nullptr) l.v0 = l.v;
  rotary_tables(cosine_, sine_, T, D);
}

template <class R>
void Model<R>::reserve_layer(Layer& l, bool value_embedding) {
  for (R** p : {&l.x, &l.xb, &l.q, &l.o, &l.xa, &l.n2}) arena_.reserve(*p, N * C);
  for (R** p : {&l.k, &l.v}) arena_.reserve(*p, N * K * D);
  if (value_embedding) arena_.reserve(l.ve, N * K * D);
  if (!r_.block_prelude) {
    for (R** p : {&l.n1, &l.q0}) arena_.reserve(*p, N * C);
    arena_.reserve(l.k0, N * K * D);
    if (value_embedding && !r_.attention_prelude) arena_.reserve(l.v0, N * K * D);
    if (!r_.rope_qk_fused) {
      arena_.reserve(l.qr, N * C);
      arena_.reserve(l.kr, N * K * D);
    }
  }
  if (r_.flash_attention) arena_.reserve(l.lse, N * H);
  if (!r_.fused_mlp)
    for (R** p : {&l.h, &l.a}) arena_.reserve(*p, N * 4 * C);
}

template <class R>
double Model<R>::forward(const R* weights, const int32_t* tokens, const int32_t* targets) {
  const Weights w(layout_, weights);
  embedding(w, tokens);
  if (!r_.flash_attention) parts_of_attention_->masks();
  for (int64_t i = 0; i < L; ++i) {
    block_start(i, w, tokens);
    attention(i);
    attention_output(i, w);
    mlp(i, w);
  }
  if (!r_.final_norm) seams_.forward(Seam::rmsnorm, final_norm(L), {x_, nullptr}, {nf_});
  head_and_loss(w, targets);
  const RangeScope range(Pass::loss_sum);
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
  const Weights w(layout_, weights);
  const Gradients g(layout_, gradients);
  head_and_loss_backward(w, g, targets, scale);
  final_norm_backward();
  clear(dx0_, N * C);
  for (int64_t i = L - 1; i >= 0; --i) {
    mlp_backward(i, w, g);
    attention_output_backward(i, w, g);
    attention_backward(i);
    block_start_backward(i, w, g, tokens);
  }
  embedding_backward(g, tokens);
}

template <class R>
void Model<R>::embedding(const Weights& w, const int32_t* tokens) {
  gather(embedded_, w.wte(), tokens, N, C);
  seams_.forward(Seam::rmsnorm, embedding_norm(), {embedded_, nullptr}, {x0_});
  const RangeScope range(Pass::copy);
  std::memcpy(layer(0).x, x0_, static_cast<size_t>(N * C) * sizeof(R));
}

template <class R>
void Model<R>::embedding_backward(const Gradients& g, const int32_t* tokens) {
  add(dx0_, dx_, N * C);  // the first block's input is x0 as well
  seams_.backward(Seam::rmsnorm, embedding_norm(), {dx0_, embedded_, nullptr}, {dn_, nullptr});
  gather_backward(g.wte(), dn_, tokens, N, C);
}

// From the residual stream to q, k and v.
template <class R>
void Model<R>::block_start(int64_t i, const Weights& w, const int32_t* tokens) {
  const Layer& l = layer(i);
  const LayerView<const R> m = w.layer(i);
  if (has_value_embedding(i))
    seams_.forward(Seam::ve_lookup_reshape, layer_site(i), {tokens, m.ve}, {l.ve});
  if (r_.block_prelude) {
    seams_.forward(Seam::block_prelude, layer_site(i),
                   {l.x, x0_, w.lambda() + i, w.mu() + i, m.q, m.k, m.v, cosine_, sine_, l.ve, m.gate},
                   {l.xb, l.q, l.k, l.v});
    return;
  }
  seams_.forward(Seam::residual_blend, layer_site(i), {l.x, x0_, w.lambda() + i, w.mu() + i},
                 {l.xb});
  seams_.forward(Seam::rmsnorm, first_norm(i), {l.xb, nullptr}, {l.n1});
  projections(i, w);
  rotary(i);
}

// dx_ is xb's gradient, of the residual stream, and becomes x's.
template <class R>
void Model<R>::block_start_backward(int64_t i, const Weights& w, const Gradients& g,
                                    const int32_t* tokens) {
  const Layer& l = layer(i);
  const LayerView<const R> m = w.layer(i);
  const LayerView<R> dm = g.layer(i);
  if (r_.block_prelude) {
    seams_.backward(Seam::block_prelude, layer_site(i),
                    {dx_, dq_, dk_, dv_, l.x, x0_, w.lambda() + i, w.mu() + i, m.q, m.k, m.v,
                     cosine_, sine_, l.ve, m.gate, l.q, l.k},
                    {dother_, dx0_, g.lambda() + i, g.mu() + i, dm.q, dm.k, dm.v,
                     has_value_embedding(i) ? dve_ : nullptr, dm.gate});
  } else {
    rotary_backward(i);
    projections_backward(i, w, g);
    norm_backward(first_norm(i), false, 0, l.xb);
    seams_.backward(Seam::residual_blend, layer_site(i),
                    {dx_, l.x, x0_, w.lambda() + i, w.mu() + i},
                    {dother_, dx0_, g.lambda() + i, g.mu() + i});
  }
  if (has_value_embedding(i))
    seams_.backward(Seam::ve_lookup_reshape, layer_site(i), {dve_, tokens}, {dm.ve});
  std::swap(dx_, dother_);
}

template <class R>
void Model<R>::projections(int64_t i, const Weights& w) {
  const Layer& l = layer(i);
  const LayerView<const R> m = w.layer(i);
  if (r_.attention_prelude) {
    seams_.forward(Seam::attention_prelude, layer_site(i), {l.n1, m.q, m.k, m.v, l.ve, m.gate},
                   {l.q0, l.k0, l.v});
    return;
  }
  matmul(l.q0, l.n1, m.q, N, C, C);
  matmul(l.k0, l.n1, m.k, N, C, K * D);
  matmul(l.v0, l.n1, m.v, N, C, K * D);
  if (has_value_embedding(i))
    seams_.forward(Seam::value_embed_gate, layer_site(i), {l.n1, l.v0, l.ve, m.gate}, {l.v});
}

// From dq0_, dk0_ and dv_ to dn_, the gradient of n1. The gate adds to v: dv_ is v0's gradient too.
template <class R>
void Model<R>::projections_backward(int64_t i, const Weights& w, const Gradients& g) {
  const Layer& l = layer(i);
  const LayerView<const R> m = w.layer(i);
  const LayerView<R> dm = g.layer(i);
  if (r_.attention_prelude) {
    seams_.backward(Seam::attention_prelude, layer_site(i),
                    {dq0_, dk0_, dv_, l.n1, m.q, m.k, m.v, l.ve, m.gate},
                    {dn_, dm.q, dm.k, dm.v, has_value_embedding(i) ? dve_ : nullptr, dm.gate});
    return;
  }
  matmul_dx(dn_, dq0_, m.q, N, C, C);
  matmul_dx(dn_, dk0_, m.k, N, C, K * D, R(1));
  matmul_dx(dn_, dv_, m.v, N, C, K * D, R(1));
  matmul_dw(dm.q, dq0_, l.n1, N, C, C);
  matmul_dw(dm.k, dk0_, l.n1, N, C, K * D);
  matmul_dw(dm.v, dv_, l.n1, N, C, K * D);
  if (!has_value_embedding(i)) return;
  seams_.backward(Seam::value_embed_gate, layer_site(i), {dv_, l.n1, l.ve, m.gate},
                  {dgate_, dve_, dm.gate});
  add_columns(dn_, dgate_, N, C, kGateColumns);
}

template <class R>
void Model<R>::rotary(int64_t i) {
  const Layer& l = layer(i);
  if (r_.rope_qk_fused) {
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
  if (r_.rope_qk_fused) {
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
  if (r_.flash_attention)
    seams_.forward(Seam::flash_attention, layer_site(i), {l.q, l.k, l.v}, {l.o, l.lse});
  else
    parts_of_attention_->forward(i, l.q, l.k, l.v, l.o);
}

template <class R>
void Model<R>::attention_backward(int64_t i) {
  const Layer& l = layer(i);
  if (r_.flash_attention)
    seams_.backward(Seam::flash_attention, layer_site(i), {do_, l.q, l.k, l.v, l.o, l.lse},
                    {dq_, dk_, dv_});
  else
    parts_of_attention_->backward(i, do_, dq_, dk_, dv_);
}

// The output projection, the add and the second norm.
template <class R>
void Model<R>::attention_output(int64_t i, const Weights& w) {
  const Layer& l = layer(i);
  const R* wo = w.layer(i).o;
  if (r_.output_epilogue)
    seams_.forward(Seam::matmul_epilogue, attention_add(i), {l.o, wo, nullptr, l.xb}, {l.xa});
  else
    matmul(update_, l.o, wo, N, C, C);
  if (r_.second_norm) {
    seams_.forward(Seam::residual_rmsnorm, attention_add(i), {l.xb, update_}, {l.xa, l.n2});
    return;
  }
  if (!r_.output_epilogue)
    seams_.forward(Seam::launch_fusion, attention_add(i), {l.xb, update_}, {l.xa});
  seams_.forward(Seam::rmsnorm, second_norm(i), {l.xa, nullptr}, {l.n2});
}

template <class R>
void Model<R>::attention_output_backward(int64_t i, const Weights& w, const Gradients& g) {
  const Layer& l = layer(i);
  const R* wo = w.layer(i).o;
  norm_backward(second_norm(i), r_.second_norm, attention_add(i), l.xa);
  if (r_.output_epilogue) {
    seams_.backward(Seam::matmul_epilogue, attention_add(i), {dx_, l.o, wo},
                    {do_, g.layer(i).o, nullptr});
    return;
  }
  matmul_dx(do_, dx_, wo, N, C, C);
  matmul_dw(g.layer(i).o, dx_, l.o, N, C, C);
}

template <class R>
void Model<R>::mlp(int64_t i, const Weights& w) {
  const Layer& l = layer(i);
  const LayerView<const R> m = w.layer(i);
  if (r_.fused_mlp) {
    seams_.forward(Seam::fused_mlp, layer_site(i), {l.n2, m.fc, m.proj}, {update_});
  } else {
    matmul(l.h, l.n2, m.fc, N, C, 4 * C);
    seams_.forward(Seam::activation_pointwise, layer_site(i), {l.h}, {l.a});
    if (r_.mlp_epilogue) {
      seams_.forward(Seam::matmul_epilogue, mlp_add(i), {l.a, m.proj, nullptr, l.xa},
                     {layer_output(i)});
      return;
    }
    matmul(update_, l.a, m.proj, N, 4 * C, C);
  }
  if (r_.final_norm && i == L - 1)
    seams_.forward(Seam::residual_rmsnorm, mlp_add(i), {l.xa, update_}, {x_, nf_});
  else
    seams_.forward(Seam::launch_fusion, mlp_add(i), {l.xa, update_}, {layer_output(i)});
}

// From dx_ to dn_, the gradient of n2.
template <class R>
void Model<R>::mlp_backward(int64_t i, const Weights& w, const Gradients& g) {
  const Layer& l = layer(i);
  const LayerView<const R> m = w.layer(i);
  const LayerView<R> dm = g.layer(i);
  if (r_.fused_mlp) {
    seams_.backward(Seam::fused_mlp, layer_site(i), {dx_, l.n2, m.fc, m.proj},
                    {dn_, dm.fc, dm.proj});
    return;
  }
  if (r_.mlp_epilogue) {
    seams_.backward(Seam::matmul_epilogue, mlp_add(i), {dx_, l.a, m.proj}, {da_, dm.proj, nullptr});
  } else {
    matmul_dx(da_, dx_, m.proj, N, 4 * C, C);
    matmul_dw(dm.proj, dx_, l.a, N, 4 * C, C);
  }
  seams_.backward(Seam::activation_pointwise, layer_site(i), {da_, l.h}, {dh_});
  matmul_dx(dn_, dh_, m.fc, N, C, 4 * C);
  matmul_dw(dm.fc, dh_, l.n2, N, C, 4 * C);
}

template <class R>
void Model<R>::head_and_loss(const Weights& w, const int32_t* targets) {
  if (r_.cross_entropy_full) {
    seams_.forward(Seam::cross_entropy_full, 0, {nf_, w.lm_head(), targets, token_bytes_.data()},
                   {nll_, &nll_sum_, &byte_sum_});
    return;
  }
  if (r_.lm_head_epilogue)
    seams_.forward(Seam::matmul_epilogue, lm_head_site(L), {nf_, w.lm_head(), nullptr, nullptr},
                   {logits_});
  else
    matmul(logits_, nf_, w.lm_head(), N, C, V);
  if (r_.loss_prelude)
    seams_.forward(Seam::loss_prelude, 0, {logits_, targets, token_bytes_.data()},
                   {nll_, &nll_sum_, &byte_sum_});
  else
    loss_in_parts(targets);
}

// To dn_, the gradient of nf.
template <class R>
void Model<R>::head_and_loss_backward(const Weights& w, const Gradients& g, const int32_t* targets,
                                      R scale) {
  if (r_.cross_entropy_full) {
    seams_.backward(Seam::cross_entropy_full, 0, {&scale, nf_, w.lm_head(), targets},
                    {dn_, g.lm_head()});
    return;
  }
  if (r_.loss_prelude)
    seams_.backward(Seam::loss_prelude, 0, {&scale, logits_, targets}, {dlogits_});
  else
    loss_in_parts_backward(targets, scale);
  if (r_.lm_head_epilogue) {
    seams_.backward(Seam::matmul_epilogue, lm_head_site(L), {dlogits_, nf_, w.lm_head()},
                    {dn_, g.lm_head(), nullptr});
  } else {
    matmul_dx(dn_, dlogits_, w.lm_head(), N, C, V);
    matmul_dw(g.lm_head(), dlogits_, nf_, N, C, V);
  }
}

template <class R>
void Model<R>::loss_in_parts(const int32_t* targets) {
  seams_.forward(Seam::logits_softcap, 0, {logits_}, {capped_});
  seams_.forward(Seam::cross_entropy_prelude, 0, {capped_, targets},
                 {row_max_, row_lse_, target_logit_});
  for (int64_t n = 0; n < N; ++n) nll_[n] = row_lse_[n] - target_logit_[n];
  seams_.run(Seam::reduce, kSum, loss_sum(), {nll_}, {nullptr, &nll_sum_});
}

template <class R>
void Model<R>::loss_in_parts_backward(const int32_t* targets, R scale) {
  std::fill_n(dlse_, N, scale);
  std::fill_n(dtarget_logit_, N, -scale);
  seams_.backward(Seam::cross_entropy_prelude, 0, {dlse_, dtarget_logit_, capped_, targets},
                  {dcapped_});
  seams_.backward(Seam::logits_softcap, 0, {dcapped_, logits_}, {dlogits_});
}

template <class R>
void Model<R>::final_norm_backward() {
  if (r_.final_norm) {
    // nothing but the norm reads the last sum
    clear(dx_, N * C);
    norm_backward(final_norm(L), true, mlp_add(L - 1), x_);
  } else {
    seams_.backward(Seam::rmsnorm, final_norm(L), {dn_, x_, nullptr}, {dx_, nullptr});
  }
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
