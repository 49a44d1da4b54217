#include <trainer/model.hpp>

#include <trainer/blas.hpp>

#include <cstring>

namespace kl::trainer {
namespace {

// Which call of the step a seam is at: the embedding norm, two per layer, the final norm.
int embedding_norm() { return 0; }
int first_norm(int64_t layer) { return static_cast<int>(1 + 2 * layer); }
int second_norm(int64_t layer) { return static_cast<int>(2 + 2 * layer); }
int final_norm(int64_t layers) { return static_cast<int>(1 + 2 * layers); }
int activation(int64_t layer) { return static_cast<int>(layer); }

}  // namespace

template <class R>
Model<R>::Model(const Config& c, const Layout& layout, Seams<R>& seams, int threads)
    : layout_(layout), seams_(seams), B(c.rows), T(c.sequence), N(c.tokens()), C(c.width), V(c.vocab),
      L(c.layers), H(c.heads()), K(c.kv()), D(c.head_dim), eps_(R(c.eps)) {
  layers_.resize(static_cast<size_t>(L));
  for (int64_t i = 0; i < L; ++i) {
    windows_.push_back(c.window(i));
    LayerActivations<R>& l = layers_[static_cast<size_t>(i)];
    for (R** p : {&l.x, &l.xb, &l.n1, &l.q, &l.o, &l.xa, &l.n2}) arena_.reserve(*p, N * C);
    for (R** p : {&l.k, &l.v}) arena_.reserve(*p, N * K * D);
    for (R** p : {&l.h, &l.a}) arena_.reserve(*p, N * 4 * C);
    for (R** p : {&l.rk, &l.gate}) arena_.reserve(*p, N * K);
    arena_.reserve(l.rq, N * H);
    arena_.reserve(l.p, B * H * T * T);
  }
  for (R** p : {&embedded_, &x0_, &x_, &nf_, &dx_, &dx0_, &dn_, &dtmp_, &dq_, &do_})
    arena_.reserve(*p, N * C);
  for (R** p : {&dk_, &dv_}) arena_.reserve(*p, N * K * D);
  for (R** p : {&da_, &dh_}) arena_.reserve(*p, N * 4 * C);
  for (R** p : {&logits_, &dlogits_}) arena_.reserve(*p, N * V);
  for (R** p : {&cosine_, &sine_}) arena_.reserve(*p, T * D / 2);
  arena_.reserve(nll_, N);
  arena_.reserve(dgate_, N * K);
  arena_.reserve(partial_, 2 * N);
  arena_.reserve(scratch_, threads * kAttentionRows * T);
  arena_.commit();
  rotary_tables(cosine_, sine_, T, D);
}

template <class R>
double Model<R>::forward(const R* weights, const int32_t* tokens, const int32_t* targets) {
  const View<const R> w(layout_, weights);
  gather(embedded_, w.wte(), tokens, N, C);
  seams_.rmsnorm_forward(embedding_norm(), embedded_, x0_);
  std::memcpy(layers_[0].x, x0_, static_cast<size_t>(N * C) * sizeof(R));
  for (int64_t i = 0; i < L; ++i) layer_forward(i, w, tokens);
  seams_.rmsnorm_forward(final_norm(L), x_, nf_);
  matmul(logits_, nf_, w.lm_head(), N, C, V);
  seams_.loss_forward(logits_, targets, nll_);
  double sum = 0;
  int64_t valid = 0;
  for (int64_t n = 0; n < N; ++n) {
    sum += static_cast<double>(nll_[n]);
    valid += targets[n] >= 0;
  }
  return valid == 0 ? 0 : sum / static_cast<double>(valid);
}

template <class R>
void Model<R>::layer_forward(int64_t i, const View<const R>& w, const int32_t* tokens) {
  const LayerActivations<R>& l = layers_[static_cast<size_t>(i)];
  const LayerView<const R> m = w.layer(i);
  residual_blend(l.xb, l.x, x0_, w.lambda()[i], w.mu()[i], N * C);
  seams_.rmsnorm_forward(first_norm(i), l.xb, l.n1);
  matmul(l.q, l.n1, m.q, N, C, C);
  matmul(l.k, l.n1, m.k, N, C, K * D);
  matmul(l.v, l.n1, m.v, N, C, K * D);
  if (m.ve != nullptr) {
    gemm('N', 'T', N, K, 32, R(1), l.n1, C, m.gate, 32, R(0), l.gate, K);
    value_gate(l.v, l.gate, m.ve, tokens, N, K, D);
  }
  rotary_norm(l.q, l.rq, cosine_, sine_, N, T, H, D, eps_);
  rotary_norm(l.k, l.rk, cosine_, sine_, N, T, K, D, eps_);
  attention(l.o, l.p, l.q, l.k, l.v, {B, T, H, K, D, windows_[static_cast<size_t>(i)]});
  std::memcpy(l.xa, l.xb, static_cast<size_t>(N * C) * sizeof(R));
  matmul(l.xa, l.o, m.o, N, C, C, R(1));
  seams_.rmsnorm_forward(second_norm(i), l.xa, l.n2);
  matmul(l.h, l.n2, m.fc, N, C, 4 * C);
  seams_.activation_forward(activation(i), l.h, l.a);
  R* x = layer_output(i);
  std::memcpy(x, l.xa, static_cast<size_t>(N * C) * sizeof(R));
  matmul(x, l.a, m.proj, N, 4 * C, C, R(1));
}

// dx_: in the gradient of the layer's output, out that of its input; dx0_ collects x0's.
template <class R>
void Model<R>::layer_backward(int64_t i, const View<const R>& w, const View<R>& g,
                              const int32_t* tokens) {
  const LayerActivations<R>& l = layers_[static_cast<size_t>(i)];
  const LayerView<const R> m = w.layer(i);
  const LayerView<R> dm = g.layer(i);
  matmul_dx(da_, dx_, m.proj, N, 4 * C, C);
  matmul_dw(dm.proj, dx_, l.a, N, 4 * C, C);
  seams_.activation_backward(activation(i), da_, l.h, dh_);
  matmul_dx(dn_, dh_, m.fc, N, C, 4 * C);
  matmul_dw(dm.fc, dh_, l.n2, N, C, 4 * C);
  seams_.rmsnorm_backward(second_norm(i), dn_, l.xa, dtmp_);
  add(dx_, dtmp_, N * C);
  matmul_dx(do_, dx_, m.o, N, C, C);
  matmul_dw(dm.o, dx_, l.o, N, C, C);
  attention_backward(dq_, dk_, dv_, do_, l.p, l.q, l.k, l.v, scratch_,
                     {B, T, H, K, D, windows_[static_cast<size_t>(i)]});
  rotary_norm_backward(dq_, l.q, l.rq, cosine_, sine_, N, T, H, D);
  rotary_norm_backward(dk_, l.k, l.rk, cosine_, sine_, N, T, K, D);
  matmul_dx(dn_, dq_, m.q, N, C, C);
  matmul_dx(dn_, dk_, m.k, N, C, K * D, R(1));
  matmul_dx(dn_, dv_, m.v, N, C, K * D, R(1));
  matmul_dw(dm.q, dq_, l.n1, N, C, C);
  matmul_dw(dm.k, dk_, l.n1, N, C, K * D);
  matmul_dw(dm.v, dv_, l.n1, N, C, K * D);
  if (m.ve != nullptr) {
    value_gate_backward(dm.ve, dgate_, dv_, l.gate, m.ve, tokens, N, K, D);
    gemm('T', 'N', K, 32, N, R(1), dgate_, K, l.n1, C, R(1), dm.gate, 32);
    gemm('N', 'N', N, 32, K, R(1), dgate_, K, m.gate, 32, R(1), dn_, C);
  }
  seams_.rmsnorm_backward(first_norm(i), dn_, l.xb, dtmp_);
  add(dx_, dtmp_, N * C);
  residual_blend_backward(dx_, dx0_, g.lambda() + i, g.mu() + i, l.x, x0_, w.lambda()[i], w.mu()[i], N, C, partial_);
}

template <class R>
void Model<R>::backward(const R* weights, R* gradients, const int32_t* tokens, const int32_t* targets,
                        R scale) {
  const View<const R> w(layout_, weights);
  const View<R> g(layout_, gradients);
  seams_.loss_backward(scale, logits_, targets, dlogits_);
  matmul_dx(dn_, dlogits_, w.lm_head(), N, C, V);
  matmul_dw(g.lm_head(), dlogits_, nf_, N, C, V);
  seams_.rmsnorm_backward(final_norm(L), dn_, x_, dx_);
  std::memset(dx0_, 0, static_cast<size_t>(N * C) * sizeof(R));
  for (int64_t i = L - 1; i >= 0; --i) layer_backward(i, w, g, tokens);
  add(dx0_, dx_, N * C);
  seams_.rmsnorm_backward(embedding_norm(), dx0_, embedded_, dn_);
  gather_backward(g.wte(), dn_, tokens, N, C);
}

template class Model<float>;
template class Model<double>;

}  // namespace kl::trainer
