#include <trainer/cuda/step.hpp>

#include <trainer/optimiser.hpp>
#include <trainer/operations.hpp>
#include <trainer/stepper.hpp>

#include <cmath>

namespace kl::trainer::cuda {
namespace {

// Which call of the step a seam is at: the embedding norm, two per layer, the final norm.
int embedding_norm() { return 0; }
int first_norm(int64_t layer) { return static_cast<int>(1 + 2 * layer); }
int second_norm(int64_t layer) { return static_cast<int>(2 + 2 * layer); }
int final_norm(int64_t layers) { return static_cast<int>(1 + 2 * layers); }

constexpr int64_t kAttentionBytes = int64_t{4} << 30;  // of scores, at most

// The largest divisor of the batch whose scores (fp32), probabilities and their gradients (bf16) fit.
int64_t rows_that_fit(const Config& c) {
  const int64_t bytes = c.heads() * c.sequence * c.sequence * 8;
  int64_t rows = c.rows;
  while (rows > 1 && (c.rows % rows != 0 || rows * bytes > kAttentionBytes)) --rows;
  return rows;
}

}  // namespace

Step::Step(const Config& c, const Layout& layout, Seams& seams, Matmul& products, DeviceArena& arena)
    : config_(c), layout_(layout), seams_(seams), products_(products), B(c.rows), T(c.sequence), N(c.tokens()),
      C(c.width), V(c.vocab), L(c.layers), H(c.heads()), K(c.kv()), D(c.head_dim), attention_rows_(rows_that_fit(c)) {
  layers_.resize(static_cast<size_t>(L));
  for (LayerActivations& l : layers_) {
    for (bf16** p : {&l.x, &l.xb, &l.n1, &l.q, &l.o, &l.xa, &l.n2}) arena.reserve(*p, N * C);
    for (bf16** p : {&l.k, &l.v}) arena.reserve(*p, N * K * D);
    for (bf16** p : {&l.h, &l.a}) arena.reserve(*p, N * 4 * C);
    for (float** p : {&l.rk, &l.gate}) arena.reserve(*p, N * K);
    arena.reserve(l.rq, N * H);
  }
  for (bf16** p : {&embedded_, &x0_, &x_, &nf_, &dx_, &dn_, &dtmp_, &dq_, &do_}) arena.reserve(*p, N * C);
  for (bf16** p : {&dk_, &dv_}) arena.reserve(*p, N * K * D);
  for (bf16** p : {&da_, &dh_}) arena.reserve(*p, N * 4 * C);
  for (bf16** p : {&logits_, &dlogits_}) arena.reserve(*p, c.loss_chunk() * V);
  for (float** p : {&weights_, &gradients_, &first_moment_, &second_moment_}) arena.reserve(*p, layout.size());
  for (float** p : {&cosine_, &sine_}) arena.reserve(*p, T * D / 2);
  for (int32_t** p : {&inputs_.tokens, &inputs_.targets, &inputs_.positions}) arena.reserve(*p, c.tokens_per_step());
  arena.reserve(inputs_.begin, (V + 1) * c.accumulation);
  arena.reserve(inputs_.scalars, 1);
  arena.reserve(compute_weights_, layout.size());
  arena.reserve(nll_, N);
  arena.reserve(loss_, 1);
  arena.reserve(norm_, 1);
  arena.reserve(partial_, std::max(2 * kBlendBlocks, kNormBlocks));
  arena.reserve(dx0_, N * C);
  arena.reserve(dgate_, N * K);
  arena.reserve(gate_partial_, kGateBlocks * K * kGateColumns);
  for (bf16** p : {&probabilities_, &dscores_}) arena.reserve(*p, H * attention_rows_ * T * T);
  arena.reserve(scores_, H * attention_rows_ * T * T);
  arena.reserve(workspace_, Matmul::kWorkspaceBytes);
}

Outcome Step::start(cudaStream_t stream) {
  stream_ = stream;
  products_.use(stream, workspace_);
  std::vector<float> cosine(static_cast<size_t>(T * D / 2)), sine(cosine.size());
  rotary_tables(cosine.data(), sine.data(), T, D);
  const size_t bytes = cosine.size() * sizeof(float);
  KL_CHECK(check(cudaMemcpy(cosine_, cosine.data(), bytes, cudaMemcpyHostToDevice), "rotary tables"));
  return check(cudaMemcpy(sine_, sine.data(), bytes, cudaMemcpyHostToDevice), "rotary tables");
}

void Step::copy(bf16* to, const bf16* from, int64_t size) {
  cudaMemcpyAsync(to, from, static_cast<size_t>(size) * sizeof(bf16), cudaMemcpyDeviceToDevice, stream_);
}

void Step::forward(int64_t micro) {
  const View<const bf16> w(layout_, compute_weights_);
  gather(embedded_, w.wte(), tokens(micro), N, C, stream_);
  seams_.rmsnorm_forward(embedding_norm(), embedded_, x0_);
  copy(layers_[0].x, x0_, N * C);
  for (int64_t i = 0; i < L; ++i) layer_forward(i, micro);
  seams_.rmsnorm_forward(final_norm(L), x_, nf_);
}

void Step::layer_forward(int64_t i, int64_t micro) {
  const LayerActivations& l = layers_[static_cast<size_t>(i)];
  const LayerView<const bf16> m = View<const bf16>(layout_, compute_weights_).layer(i);
  const View<const float> w(layout_, weights_);
  residual_blend(l.xb, l.x, x0_, w.lambda() + i, w.mu() + i, N * C, stream_);
  seams_.rmsnorm_forward(first_norm(i), l.xb, l.n1);
  products_.matmul(l.q, l.n1, m.q, N, C, C);
  products_.matmul(l.k, l.n1, m.k, N, C, K * D);
  products_.matmul(l.v, l.n1, m.v, N, C, K * D);
  if (m.ve != nullptr) value_gate(l.v, l.gate, l.n1, m.gate, m.ve, tokens(micro), N, C, K, D, stream_);
  rotary_norm(l.q, l.rq, cosine_, sine_, N, T, H, D, static_cast<float>(config_.eps), stream_);
  rotary_norm(l.k, l.rk, cosine_, sine_, N, T, K, D, static_cast<float>(config_.eps), stream_);
  attention(l, config_.window(i));
  copy(l.xa, l.xb, N * C);
  products_.matmul(l.xa, l.o, m.o, N, C, C, 1);
  seams_.rmsnorm_forward(second_norm(i), l.xa, l.n2);
  products_.matmul(l.h, l.n2, m.fc, N, C, 4 * C);
  relu_squared(l.a, l.h, N * 4 * C, stream_);
  copy(layer_output(i), l.xa, N * C);
  products_.matmul(layer_output(i), l.a, m.proj, N, 4 * C, C, 1);
}

// dx_: in the gradient of the layer's output, out that of its input; dx0_ collects x0's.
void Step::layer_backward(int64_t i, int64_t micro) {
  const LayerActivations& l = layers_[static_cast<size_t>(i)];
  const LayerView<const bf16> m = View<const bf16>(layout_, compute_weights_).layer(i);
  const View<const float> w(layout_, weights_);
  const View<float> g(layout_, gradients_);
  const LayerView<float> dm = g.layer(i);
  products_.matmul_dx(da_, dx_, m.proj, N, 4 * C, C);
  products_.matmul_dw(dm.proj, dx_, l.a, N, 4 * C, C);
  relu_squared_backward(dh_, da_, l.h, N * 4 * C, stream_);
  products_.matmul_dx(dn_, dh_, m.fc, N, C, 4 * C);
  products_.matmul_dw(dm.fc, dh_, l.n2, N, C, 4 * C);
  seams_.rmsnorm_backward(second_norm(i), dn_, l.xa, dtmp_);
  add(dx_, dtmp_, N * C, stream_);
  products_.matmul_dx(do_, dx_, m.o, N, C, C);
  products_.matmul_dw(dm.o, dx_, l.o, N, C, C);
  attention_backward(l, config_.window(i));
  rotary_norm_backward(dq_, l.q, l.rq, cosine_, sine_, N, T, H, D, stream_);
  rotary_norm_backward(dk_, l.k, l.rk, cosine_, sine_, N, T, K, D, stream_);
  products_.matmul_dx(dn_, dq_, m.q, N, C, C);
  products_.matmul_dx(dn_, dk_, m.k, N, C, K * D, 1);
  products_.matmul_dx(dn_, dv_, m.v, N, C, K * D, 1);
  products_.matmul_dw(dm.q, dq_, l.n1, N, C, C);
  products_.matmul_dw(dm.k, dk_, l.n1, N, C, K * D);
  products_.matmul_dw(dm.v, dv_, l.n1, N, C, K * D);
  if (m.ve != nullptr) {
    value_table_backward(dm.ve, dv_, l.gate, positions(micro), V, K, D, stream_);
    value_gate_backward(dgate_, dn_, dv_, l.gate, m.gate, m.ve, tokens(micro), N, C, K, D, stream_);
    gate_weight_backward(dm.gate, dgate_, l.n1, N, C, K, gate_partial_, stream_);
  }
  seams_.rmsnorm_backward(first_norm(i), dn_, l.xb, dtmp_);
  add(dx_, dtmp_, N * C, stream_);
  residual_blend_backward(dx_, dx0_, g.lambda() + i, g.mu() + i, l.x, x0_, w.lambda() + i, w.mu() + i, N * C,
                          partial_, stream_);
}

// The logits exist for some rows at a time. With the gradient: the head's, and in dn_ its input's.
void Step::head(int64_t micro, bool with_gradient) {
  const bf16* weight = View<const bf16>(layout_, compute_weights_).lm_head();
  float* gradient = View<float>(layout_, gradients_).lm_head();
  const int64_t rows = config_.loss_chunk();
  for (int64_t n = 0; n < N; n += rows) {
    products_.matmul(logits_, nf_ + n * C, weight, rows, C, V);
    seams_.loss_forward(logits_, targets(micro) + n, nll_ + n);
    if (!with_gradient) continue;
    seams_.loss_backward(logits_, targets(micro) + n, dlogits_);
    products_.matmul_dx(dn_ + n * C, dlogits_, weight, rows, C, V);
    products_.matmul_dw(gradient, dlogits_, nf_ + n * C, rows, C, V);
  }
}

void Step::backward(int64_t micro) {
  const View<float> g(layout_, gradients_);
  seams_.rmsnorm_backward(final_norm(L), dn_, x_, dx_);
  cudaMemsetAsync(dx0_, 0, static_cast<size_t>(N * C) * sizeof(float), stream_);
  for (int64_t i = L - 1; i >= 0; --i) layer_backward(i, micro);
  add_into(dn_, dx0_, dx_, N * C, stream_);
  seams_.rmsnorm_backward(embedding_norm(), dn_, embedded_, dtmp_);
  gather_backward(g.wte(), dtmp_, positions(micro), V, C, stream_);
}

void Step::losses(int64_t micro) {
  forward(micro);
  head(micro, false);
}

void Step::gradient(int64_t micro) {
  forward(micro);
  head(micro, true);
  mean_loss(loss_, nll_, targets(micro), N, 1.0 / static_cast<double>(config_.accumulation), stream_);
  backward(micro);
}

// Probabilities of attention_rows_ rows of the batch, from `row` on.
void Step::attend(const LayerActivations& l, int64_t row, int64_t window) {
  const int64_t R = attention_rows_, group = H / K;
  for (int64_t h = 0; h < H; ++h)
    products_.product({'N', 'T', T, T, D, H * D, K * D, T, R, T * H * D, T * K * D, T * T}, 1,
                      l.q + (row * T * H + h) * D, l.k + (row * T * K + h / group) * D, 0, scores_ + h * R * T * T);
  masked_softmax(probabilities_, scores_, H * R * T, T, window, 1 / std::sqrt(static_cast<float>(D)), stream_);
}

void Step::attention(const LayerActivations& l, int64_t window) {
  const int64_t R = attention_rows_, group = H / K;
  for (int64_t row = 0; row < B; row += R) {
    attend(l, row, window);
    for (int64_t h = 0; h < H; ++h)
      products_.product({'N', 'N', T, D, T, T, K * D, H * D, R, T * T, T * K * D, T * H * D}, 1,
                        probabilities_ + h * R * T * T, l.v + (row * T * K + h / group) * D, 0,
                        l.o + (row * T * H + h) * D);
  }
}

void Step::attention_backward(const LayerActivations& l, int64_t window) {
  const int64_t R = attention_rows_, group = H / K;
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  for (int64_t row = 0; row < B; row += R) {
    attend(l, row, window);
    for (int64_t h = 0; h < H; ++h)  // the gradient of the probabilities takes the scores' place
      products_.product({'N', 'T', T, T, D, H * D, K * D, T, R, T * H * D, T * K * D, T * T}, 1,
                        do_ + (row * T * H + h) * D, l.v + (row * T * K + h / group) * D, 0, scores_ + h * R * T * T);
    masked_softmax_backward(dscores_, probabilities_, scores_, H * R * T, T, window, stream_);
    for (int64_t h = 0; h < H; ++h) {
      const bf16 *p = probabilities_ + h * R * T * T, *ds = dscores_ + h * R * T * T;
      const int64_t q_at = (row * T * H + h) * D, k_at = (row * T * K + h / group) * D;
      const float beta = h % group == 0 ? 0 : 1;  // heads that share keys add to their gradients
      products_.product({'T', 'N', T, D, T, T, H * D, K * D, R, T * T, T * H * D, T * K * D}, 1, p, do_ + q_at, beta,
                        dv_ + k_at);
      products_.product({'N', 'N', T, D, T, T, K * D, H * D, R, T * T, T * K * D, T * H * D}, scale, ds, l.k + k_at, 0,
                        dq_ + q_at);
      products_.product({'T', 'N', T, D, T, T, H * D, K * D, R, T * T, T * H * D, T * K * D}, scale, ds, l.q + q_at,
                        beta, dk_ + k_at);
    }
  }
}

void Step::clear() {
  cudaMemsetAsync(gradients_, 0, static_cast<size_t>(layout_.size()) * sizeof(float), stream_);
  cudaMemsetAsync(loss_, 0, sizeof(double), stream_);
}

void Step::norm() { cuda::gradient_norm(norm_, gradients_, layout_.size(), partial_, stream_); }

void Step::update() {
  for (const Parameter& p : layout_.parameters())
    adamw(weights_ + p.offset, compute_weights_ + p.offset, gradients_ + p.offset, first_moment_ + p.offset,
          second_moment_ + p.offset, p.size, inputs_.scalars->adam + static_cast<int>(p.group), loss_, kRunawayLoss,
          stream_);
}

void Step::refresh() { to_bf16(compute_weights_, weights_, layout_.size(), stream_); }

}  // namespace kl::trainer::cuda
