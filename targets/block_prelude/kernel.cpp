// The start of a block for CPUs. A block of rows goes through all of it on one thread: what the
// products made is normed, rotated and gated while it is in that thread's cache.
//   forward   xb and its norm, q, k, v by sgemm, the gate, rotary and norm of the heads
//   backward  the heads back to the projections, dn by sgemm (in dx), the gate, then norm and blend
//   in
//             one pass; the weights' gradients are products on all threads after each round of
//             blocks
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>

namespace {

constexpr int64_t kGateColumns = 32;
constexpr int64_t kBlockRows = 512;     // fewer cost more packing of the weights
constexpr int64_t kRowsPerThread = 64;  // fewer are not worth a thread

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t T, N, C, H, K, D;  // N = B*T
  decltype(kl_services::sgemm) sgemm;
  int64_t heads(int i) const { return i == 0 ? H : K; }  // of q, k, v
  int64_t width(int i) const { return heads(i) * D; }
};

// Forward's inputs, in their order.
struct Inputs {
  const float *x, *x0, *lambda, *mu, *weights[3], *cos, *sin, *ve, *wg;
  explicit Inputs(const DLTensor* in)
      : x(at(in[0])),
        x0(at(in[1])),
        lambda(at(in[2])),
        mu(at(in[3])),
        weights{at(in[4]), at(in[5]), at(in[6])},
        cos(at(in[7])),
        sin(at(in[8])),
        ve(at(in[9])),
        wg(at(in[10])) {}
  static const float* at(const DLTensor& t) {
    return kl::is_present(t) ? kl::data<const float>(t) : nullptr;
  }
};

// What forward keeps: the normed rows, 1/rms of rows and of heads, the gates.
struct Saved {
  float *normed, *rms, *head_rms[2], *gates;  // [N,C], [N], [N,H] and [N,K], [N,K]
  Saved(void* memory, const Plan& p)
      : normed(static_cast<float*>(memory)), rms(normed + p.N * p.C) {
    head_rms[0] = rms + p.N;
    head_rms[1] = head_rms[0] + p.N * p.H;
    gates = head_rms[1] + p.N * p.K;
  }
  static int64_t floats(const Plan& p) { return p.N * (p.C + 1 + p.H + 2 * p.K); }
};

// Sums over rows of one thread, a page apart: threads with sums side by side are slower.
struct Sums {
  double lambda, mu;
  float* gate_weights() { return reinterpret_cast<float*>(this) + 16; }  // [K,32]
  static int64_t floats(const Plan& p) { return 16 + p.K * kGateColumns + 1024; }
  static Sums& of(void* scratch, int64_t thread, const Plan& p) {
    return *reinterpret_cast<Sums*>(static_cast<float*>(scratch) + thread * floats(p));
  }
};

bool is_packed(const DLTensor& t, std::initializer_list<int64_t> shape) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == static_cast<int32_t>(shape.size()) &&
         std::equal(shape.begin(), shape.end(), t.shape);
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not block_prelude's");
  if (p->input_count != (forward ? 11 : 17) || p->output_count != (forward ? 4 : 9) ||
      p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  const DLTensor* in = p->inputs + (forward ? 0 : 4);
  if (in[0].ndim != 3 || in[4].ndim != 3 || in[5].ndim != 3)
    return kl::bad_argument("x is [B,T,C], wq [H,D,C], wk [K,D,C]");
  const int64_t B = in[0].shape[0], T = in[0].shape[1], C = in[0].shape[2];
  const int64_t H = in[4].shape[0], K = in[5].shape[0], D = in[4].shape[1];
  if (!is_packed(in[0], {B, T, C}) || !is_packed(in[1], {B, T, C}) || !is_packed(in[2], {1}) ||
      !is_packed(in[3], {1}))
    return kl::unsupported("x, x0: packed f32 [B,T,C], lambda, mu: f32 [1]");
  if (!is_packed(in[4], {H, D, C}) || !is_packed(in[5], {K, D, C}) || !is_packed(in[6], {K, D, C}))
    return kl::unsupported("wq: packed f32 [H,D,C], wk, wv: [K,D,C]");
  if (D % 2 != 0 || !is_packed(in[7], {T, D / 2}) || !is_packed(in[8], {T, D / 2}))
    return kl::unsupported("cos, sin: packed f32 [T,D/2]");
  const bool gated = kl::is_present(in[9]);
  if (gated != kl::is_present(in[10])) return kl::bad_argument("ve and wg come together");
  if (gated && (!is_packed(in[9], {B, T, K, D}) || !is_packed(in[10], {K, kGateColumns})))
    return kl::unsupported("ve: packed f32 [B,T,K,D], wg: [K,32]");
  if (gated && C < kGateColumns) return kl::unsupported("the gate reads 32 columns");
  const DLTensor* made = forward ? p->outputs : p->inputs;  // xb, q, k, v or their gradients
  if (!is_packed(made[0], {B, T, C}) || !is_packed(made[1], {B, T, H, D}) ||
      !is_packed(made[2], {B, T, K, D}) || !is_packed(made[3], {B, T, K, D}))
    return kl::unsupported("xb: packed f32 [B,T,C], q: [B,T,H,D], k, v: [B,T,K,D]");
  if (forward) return kl::ok();
  if (!is_packed(in[11], {B, T, H, D}) || !is_packed(in[12], {B, T, K, D}))
    return kl::unsupported("q: packed f32 [B,T,H,D], k: [B,T,K,D]");
  const DLTensor* out = p->outputs;
  if (!is_packed(out[0], {B, T, C}) || !is_packed(out[1], {B, T, C}) || !is_packed(out[2], {1}) ||
      !is_packed(out[3], {1}) || !is_packed(out[4], {H, D, C}) || !is_packed(out[5], {K, D, C}) ||
      !is_packed(out[6], {K, D, C}))
    return kl::unsupported("gradients: packed f32, shaped like what they belong to");
  if (gated && (!is_packed(out[7], {B, T, K, D}) || !is_packed(out[8], {K, kGateColumns})))
    return kl::unsupported("dve: packed f32 [B,T,K,D], dwg: [K,32]");
  return kl::ok();
}

Plan plan_of(const kl_problem* p, decltype(kl_services::sgemm) sgemm) {
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 4);
  const int64_t T = in[0].shape[1], N = in[0].shape[0] * T;
  const int64_t worth = std::max<int64_t>(1, N / kRowsPerThread);
  return {p->operation,
          static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
          T,
          N,
          in[0].shape[2],
          in[4].shape[0],
          in[5].shape[0],
          in[4].shape[1],
          sgemm};
}

int64_t rows_of_a_round(const Plan& p) { return std::min(p.N, p.threads * kBlockRows); }

// Backward: each thread's sums, and the gradients of a round's projections q and k.
size_t scratch_bytes(const kl_problem* p) {
  if (p->operation == KL_FORWARD) return 0;
  const Plan plan = plan_of(p, nullptr);
  return static_cast<size_t>(plan.threads * Sums::floats(plan) +
                             rows_of_a_round(plan) * (plan.width(0) + plan.width(1))) *
         sizeof(float);
}
size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(Saved::floats(plan_of(p, nullptr))) * sizeof(float);
}

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p, services->sgemm));
  return kl::ok();
}

struct Rows {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
// Share `part` of `parts`, as even as can be.
Rows share_of(Rows all, int64_t part, int64_t parts) {
  return {all.begin + all.count() * part / parts, all.begin + all.count() * (part + 1) / parts};
}

// Rounds of a block for each thread: block(rows, round's rows, thread), then after(round's rows).
template <class Block, class After>
kl_result for_rounds(const Plan& p, Block block, After after) {
  const int64_t rounds = (p.N + p.threads * kBlockRows - 1) / (p.threads * kBlockRows);
  int32_t code = KL_OK;
  for (int64_t round = 0; round < rounds; ++round) {
    const Rows all = share_of({0, p.N}, round, rounds);
#pragma omp parallel for schedule(static, 1) num_threads(p.threads) reduction(max : code)
    for (int32_t thread = 0; thread < p.threads; ++thread)
      code = std::max(code, block(share_of(all, thread, p.threads), all, thread));
    code = std::max(code, after(all));
  }
  return {code, code == KL_OK ? nullptr : "sgemm failed"};
}

// In double, so that squares neither overflow nor vanish.
double dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += double{a[i]} * b[i];
  return sum;
}
float inverse_rms(const float* x, int64_t count, double eps) {
  return static_cast<float>(1 / std::sqrt(dot(x, x, count) / static_cast<double>(count) + eps));
}

float blend_and_norm(const Plan& p, const Inputs& in, int64_t n, double eps, float* xb,
                     float* normed) {
  const float lambda = *in.lambda, mu = *in.mu;
  const float *x = in.x + n * p.C, *x0 = in.x0 + n * p.C;
#pragma omp simd
  for (int64_t c = 0; c < p.C; ++c) xb[c] = lambda * x[c] + mu * x0[c];
  const float r = inverse_rms(xb, p.C, eps);
#pragma omp simd
  for (int64_t c = 0; c < p.C; ++c) normed[c] = xb[c] * r;
  return r;
}

// Heads of row n, in place.
void rotate_and_norm(const Plan& p, const Inputs& in, int64_t n, double eps, float* x, float* rms,
                     int64_t heads) {
  const int64_t half = p.D / 2;
  const float *cos = in.cos + n % p.T * half, *sin = in.sin + n % p.T * half;
  for (int64_t h = 0; h < heads; ++h, x += p.D) {
#pragma omp simd
    for (int64_t d = 0; d < half; ++d) {
      const float x1 = x[d], x2 = x[d + half];
      x[d] = x1 * cos[d] + x2 * sin[d];
      x[d + half] = x2 * cos[d] - x1 * sin[d];
    }
    const float r = rms[h] = inverse_rms(x, p.D, eps);
#pragma omp simd
    for (int64_t d = 0; d < p.D; ++d) x[d] *= r;
  }
}

// From dy to dx, the gradient of the projection.
void rotate_and_norm_backward(const Plan& p, const Inputs& in, int64_t n, const float* dy,
                              const float* y, const float* rms, float* dx, int64_t heads) {
  const int64_t half = p.D / 2;
  const float *cos = in.cos + n % p.T * half, *sin = in.sin + n % p.T * half;
  for (int64_t h = 0; h < heads; ++h, dy += p.D, y += p.D, dx += p.D) {
    const auto mean = static_cast<float>(dot(dy, y, p.D) / static_cast<double>(p.D));
    const float r = rms[h];
#pragma omp simd
    for (int64_t d = 0; d < half; ++d) {
      const float g1 = r * (dy[d] - y[d] * mean), g2 = r * (dy[d + half] - y[d + half] * mean);
      dx[d] = g1 * cos[d] - g2 * sin[d];
      dx[d + half] = g1 * sin[d] + g2 * cos[d];
    }
  }
}

void gate_values(const Plan& p, const Inputs& in, int64_t n, const float* normed, float* gates,
                 float* v) {
  for (int64_t k = 0; k < p.K; ++k) {
    float s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t c = 0; c < kGateColumns; ++c) s += normed[c] * in.wg[k * kGateColumns + c];
    const float gate = gates[k] = 2 / (1 + std::exp(-s));
    const float* ve = in.ve + (n * p.K + k) * p.D;
#pragma omp simd
    for (int64_t d = 0; d < p.D; ++d) v[k * p.D + d] += gate * ve[d];
  }
}

void gate_backward(const Plan& p, const Inputs& in, int64_t n, const float* normed,
                   const float* gates, const float* dv, float* dve, float* dn, float* dwg) {
  for (int64_t k = 0; k < p.K; ++k, dv += p.D, dve += p.D) {
    const float* ve = in.ve + (n * p.K + k) * p.D;
    const float gate = gates[k];
    const auto ds = static_cast<float>(dot(dv, ve, p.D)) * gate * (1 - gate / 2);
#pragma omp simd
    for (int64_t d = 0; d < p.D; ++d) dve[d] = gate * dv[d];
#pragma omp simd
    for (int64_t c = 0; c < kGateColumns; ++c) {
      dn[c] += ds * in.wg[k * kGateColumns + c];
      dwg[k * kGateColumns + c] += ds * normed[c];
    }
  }
}

// dx holds dn, the gradient of the normed row.
void norm_and_blend_backward(const Plan& p, const Inputs& in, int64_t n, const float* dxb,
                             const float* normed, float r, float* dx, float* dx0, Sums& sums) {
  const float lambda = *in.lambda, mu = *in.mu;
  const float *x = in.x + n * p.C, *x0 = in.x0 + n * p.C;
  const auto mean = static_cast<float>(dot(dx, normed, p.C) / static_cast<double>(p.C));
  double by_x = 0, by_x0 = 0;
#pragma omp simd reduction(+ : by_x, by_x0)
  for (int64_t c = 0; c < p.C; ++c) {
    const float t = dxb[c] + r * (dx[c] - normed[c] * mean);
    dx[c] = lambda * t;
    dx0[c] += mu * t;
    by_x += double{t} * x[c];
    by_x0 += double{t} * x0[c];
  }
  sums.lambda += by_x;
  sums.mu += by_x0;
}

kl_result forward(const Plan& p, const kl_call* call) {
  const Inputs in(call->inputs);
  const Saved saved(call->saved, p);
  const double eps = call->scalars[0];
  float* xb = kl::data<float>(call->outputs[0]);
  float* made[3];  // q, k, v
  for (int i = 0; i < 3; ++i) made[i] = kl::data<float>(call->outputs[1 + i]);
  const auto block = [&](Rows rows, Rows, int32_t) {
    int32_t code = KL_OK;
    for (int64_t n = rows.begin; n < rows.end; ++n)
      saved.rms[n] = blend_and_norm(p, in, n, eps, xb + n * p.C, saved.normed + n * p.C);
    for (int i = 0; i < 3; ++i)
      code = std::max(
          code, p.sgemm('N', 'T', rows.count(), p.width(i), p.C, 1, saved.normed + rows.begin * p.C,
                        p.C, in.weights[i], p.C, 0, made[i] + rows.begin * p.width(i), p.width(i))
                    .code);
    for (int64_t n = rows.begin; n < rows.end; ++n) {
      for (int i = 0; i < 2; ++i)
        rotate_and_norm(p, in, n, eps, made[i] + n * p.width(i), saved.head_rms[i] + n * p.heads(i),
                        p.heads(i));
      if (in.ve != nullptr)
        gate_values(p, in, n, saved.normed + n * p.C, saved.gates + n * p.K,
                    made[2] + n * p.width(2));
    }
    return code;
  };
  return for_rounds(p, block, [](Rows) { return int32_t{KL_OK}; });
}

kl_result backward(const Plan& p, const kl_call* call) {
  const Inputs in(call->inputs + 4);
  const Saved saved(call->saved, p);
  const float* dxb = kl::data<const float>(call->inputs[0]);
  const float *given[3], *normed_heads[2];  // dq, dk, dv; q, k
  for (int i = 0; i < 3; ++i) given[i] = kl::data<const float>(call->inputs[1 + i]);
  for (int i = 0; i < 2; ++i) normed_heads[i] = kl::data<const float>(call->inputs[15 + i]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dx0 = kl::data<float>(call->outputs[1]);
  float* dve = in.ve != nullptr ? kl::data<float>(call->outputs[7]) : nullptr;
  float* projected[2];  // gradients of a round's projections
  projected[0] = static_cast<float*>(call->scratch) + p.threads * Sums::floats(p);
  projected[1] = projected[0] + rows_of_a_round(p) * p.width(0);
  std::memset(call->scratch, 0, static_cast<size_t>(p.threads * Sums::floats(p)) * sizeof(float));
  // Of projection i, from row n on, in a round that begins at `first`.
  const auto gradient = [&](int i, int64_t n, int64_t first) -> const float* {
    return i == 2 ? given[2] + n * p.width(2) : projected[i] + (n - first) * p.width(i);
  };
  const auto block = [&](Rows rows, Rows all, int32_t thread) {
    Sums& sums = Sums::of(call->scratch, thread, p);
    int32_t code = KL_OK;
    for (int64_t n = rows.begin; n < rows.end; ++n)
      for (int i = 0; i < 2; ++i)
        rotate_and_norm_backward(p, in, n, given[i] + n * p.width(i),
                                 normed_heads[i] + n * p.width(i),
                                 saved.head_rms[i] + n * p.heads(i),
                                 projected[i] + (n - all.begin) * p.width(i), p.heads(i));
    for (int i = 0; i < 3; ++i)
      code = std::max(code, p.sgemm('N', 'N', rows.count(), p.C, p.width(i), 1,
                                    gradient(i, rows.begin, all.begin), p.width(i), in.weights[i],
                                    p.C, i > 0, dx + rows.begin * p.C, p.C)
                                .code);
    for (int64_t n = rows.begin; n < rows.end; ++n) {
      const float* normed = saved.normed + n * p.C;
      if (in.ve != nullptr)
        gate_backward(p, in, n, normed, saved.gates + n * p.K, given[2] + n * p.width(2),
                      dve + n * p.width(2), dx + n * p.C, sums.gate_weights());
      norm_and_blend_backward(p, in, n, dxb + n * p.C, normed, saved.rms[n], dx + n * p.C,
                              dx0 + n * p.C, sums);
    }
    return code;
  };
  const auto weights = [&](Rows all) {
    int32_t code = KL_OK;
    for (int i = 0; i < 3; ++i)
      code = std::max(code, p.sgemm('T', 'N', p.width(i), p.C, all.count(), 1,
                                    gradient(i, all.begin, all.begin), p.width(i),
                                    saved.normed + all.begin * p.C, p.C, 1,
                                    kl::data<float>(call->outputs[4 + i]), p.C)
                                .code);
    return code;
  };
  const kl_result result = for_rounds(p, block, weights);
  double dlambda = 0, dmu = 0;
  for (int32_t thread = 0; thread < p.threads; ++thread) {
    Sums& sums = Sums::of(call->scratch, thread, p);
    dlambda += sums.lambda;
    dmu += sums.mu;
    for (int64_t i = 0; in.ve != nullptr && i < p.K * kGateColumns; ++i)
      kl::data<float>(call->outputs[8])[i] += sums.gate_weights()[i];
  }
  *kl::data<float>(call->outputs[2]) += static_cast<float>(dlambda);
  *kl::data<float>(call->outputs[3]) += static_cast<float>(dmu);
  return result;
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  return p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
}

}  // namespace

KL_EXPORT_KERNEL("block_prelude", accepts, scratch_bytes, saved_bytes, prepare, run);
