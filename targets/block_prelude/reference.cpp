// The plain start of a block: one operation after the other, each over all rows.
#include <kernel_lab/kernel.hpp>

#include <cmath>

namespace {

constexpr int64_t kGateColumns = 32;

struct Plan {
  int32_t operation;
  int64_t T, N, C, H, K, D;  // N = B*T
  decltype(kl_services::sgemm) sgemm;
};

// Forward's inputs, in their order.
struct Inputs {
  const float *x, *x0, *lambda, *mu, *wq, *wk, *wv, *cos, *sin, *ve, *wg;
};
Inputs inputs_of(const DLTensor* in) {
  const auto at = [&](int i) {
    return kl::is_present(in[i]) ? kl::data<const float>(in[i]) : nullptr;
  };
  return {at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), at(9), at(10)};
}

// What forward keeps.
struct Saved {
  float *normed, *rms, *q_rms, *k_rms;  // [N,C], and 1/rms: [N], [N,H], [N,K]
  Saved(void* memory, const Plan& p)
      : normed(static_cast<float*>(memory)),
        rms(normed + p.N * p.C),
        q_rms(rms + p.N),
        k_rms(q_rms + p.N * p.H) {}
};

Plan plan_of(const kl_problem* p, decltype(kl_services::sgemm) sgemm) {
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 4);
  const int64_t T = in[0].shape[1];
  return {p->operation,   T,    in[0].shape[0] * T, in[0].shape[2], in[4].shape[0], in[5].shape[0],
          in[4].shape[1], sgemm};
}

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (kl::is_present(p->inputs[i]) &&
        (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i])))
      return kl::unsupported("inputs must be packed f32");
  for (int i = 0; i < p->output_count; ++i)
    if (kl::is_present(p->outputs[i]) &&
        (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i])))
      return kl::unsupported("outputs must be packed f32");
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 4);
  if (in[7].shape[1] * 2 != in[4].shape[1]) return kl::unsupported("cos, sin: [T,D/2]");
  if (kl::is_present(in[9]) && in[0].shape[2] < kGateColumns)
    return kl::unsupported("the gate reads 32 columns");
  return kl::ok();
}

// Backward: the gradients of the normed rows and of the projections q and k.
size_t scratch_bytes(const kl_problem* p) {
  if (p->operation == KL_FORWARD) return 0;
  const Plan plan = plan_of(p, nullptr);
  return static_cast<size_t>(plan.N * (plan.C + (plan.H + plan.K) * plan.D)) * sizeof(float);
}
size_t saved_bytes(const kl_problem* p) {
  const Plan plan = plan_of(p, nullptr);
  return static_cast<size_t>(plan.N * (plan.C + 1 + plan.H + plan.K)) * sizeof(float);
}

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  kl::store(plan, plan_of(p, services->sgemm));
  return kl::ok();
}

float inverse_rms(const float* x, int64_t count, double eps) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double{x[i]} * x[i];
  return static_cast<float>(1 / std::sqrt(sum / static_cast<double>(count) + eps));
}
// g of y = x * r, to the gradient of x.
void norm_backward(float* g, const float* y, float r, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += double{g[i]} * y[i];
  const float mean = static_cast<float>(sum / static_cast<double>(count));
  for (int64_t i = 0; i < count; ++i) g[i] = r * (g[i] - y[i] * mean);
}
// sign -1: back.
void rotate(float* x, const float* cos, const float* sin, int64_t half, float sign) {
  for (int64_t d = 0; d < half; ++d) {
    const float x1 = x[d], x2 = x[d + half], c = cos[d], s = sign * sin[d];
    x[d] = x1 * c + x2 * s;
    x[d + half] = x2 * c - x1 * s;
  }
}
float gate_of(const float* n, const float* wg) {
  double s = 0;
  for (int64_t c = 0; c < kGateColumns; ++c) s += double{n[c]} * wg[c];
  return static_cast<float>(2 / (1 + std::exp(-s)));
}

void rotate_and_norm(const Plan& p, const Inputs& in, float* x, float* scales, int64_t heads,
                     double eps) {
  const int64_t half = p.D / 2;
  for (int64_t i = 0; i < p.N * heads; ++i, x += p.D) {
    const int64_t t = i / heads % p.T;
    rotate(x, in.cos + t * half, in.sin + t * half, half, 1);
    scales[i] = inverse_rms(x, p.D, eps);
    for (int64_t d = 0; d < p.D; ++d) x[d] *= scales[i];
  }
}
// From dy to dx, the gradient of the projection.
void rotate_and_norm_backward(const Plan& p, const Inputs& in, const float* dy, const float* y,
                              const float* scales, float* dx, int64_t heads) {
  const int64_t half = p.D / 2;
  for (int64_t i = 0; i < p.N * heads * p.D; ++i) dx[i] = dy[i];
  for (int64_t i = 0; i < p.N * heads; ++i, dx += p.D, y += p.D) {
    const int64_t t = i / heads % p.T;
    norm_backward(dx, y, scales[i], p.D);
    rotate(dx, in.cos + t * half, in.sin + t * half, half, -1);
  }
}

kl_result forward(const Plan& p, const kl_call* call) {
  const Inputs in = inputs_of(call->inputs);
  const Saved saved(call->saved, p);
  const double eps = call->scalars[0];
  float* out[4];
  for (int i = 0; i < 4; ++i) out[i] = kl::data<float>(call->outputs[i]);
  for (int64_t i = 0; i < p.N * p.C; ++i) out[0][i] = *in.lambda * in.x[i] + *in.mu * in.x0[i];
  for (int64_t n = 0; n < p.N; ++n) {
    saved.rms[n] = inverse_rms(out[0] + n * p.C, p.C, eps);
    for (int64_t i = n * p.C; i < (n + 1) * p.C; ++i) saved.normed[i] = out[0][i] * saved.rms[n];
  }
  const float* weights[] = {in.wq, in.wk, in.wv};
  for (int i = 0; i < 3; ++i) {
    const int64_t width = (i == 0 ? p.H : p.K) * p.D;
    const kl_result result = p.sgemm('N', 'T', p.N, width, p.C, 1, saved.normed, p.C, weights[i],
                                     p.C, 0, out[1 + i], width);
    if (result.code != KL_OK) return result;
  }
  for (int64_t i = 0; in.ve != nullptr && i < p.N * p.K; ++i) {
    const float gate = gate_of(saved.normed + i / p.K * p.C, in.wg + i % p.K * kGateColumns);
    for (int64_t d = i * p.D; d < (i + 1) * p.D; ++d) out[3][d] += gate * in.ve[d];
  }
  rotate_and_norm(p, in, out[1], saved.q_rms, p.H, eps);
  rotate_and_norm(p, in, out[2], saved.k_rms, p.K, eps);
  return kl::ok();
}

void gate_backward(const Plan& p, const Inputs& in, const float* normed, const float* dv,
                   float* dve, float* dwg, float* dn) {
  for (int64_t i = 0; i < p.N * p.K; ++i) {
    const int64_t row = i / p.K * p.C, weight = i % p.K * kGateColumns;
    const float gate = gate_of(normed + row, in.wg + weight);
    double dot = 0;
    for (int64_t d = i * p.D; d < (i + 1) * p.D; ++d) {
      dot += double{dv[d]} * in.ve[d];
      dve[d] = gate * dv[d];
    }
    const float ds = static_cast<float>(dot) * gate * (1 - gate / 2);
    for (int64_t c = 0; c < kGateColumns; ++c) {
      dn[row + c] += ds * in.wg[weight + c];
      dwg[weight + c] += ds * normed[row + c];
    }
  }
}

kl_result backward(const Plan& p, const kl_call* call) {
  const Inputs in = inputs_of(call->inputs + 4);
  const Saved saved(call->saved, p);
  float* dn = static_cast<float*>(call->scratch);
  float* dq = dn + p.N * p.C;
  float* dk = dq + p.N * p.H * p.D;
  const float* given[4];  // dxb, dq, dk, dv
  for (int i = 0; i < 4; ++i) given[i] = kl::data<const float>(call->inputs[i]);
  rotate_and_norm_backward(p, in, given[1], kl::data<const float>(call->inputs[15]), saved.q_rms,
                           dq, p.H);
  rotate_and_norm_backward(p, in, given[2], kl::data<const float>(call->inputs[16]), saved.k_rms,
                           dk, p.K);
  const float* weights[] = {in.wq, in.wk, in.wv};
  const float* gradients[] = {dq, dk, given[3]};
  for (int i = 0; i < 3; ++i) {
    const int64_t width = (i == 0 ? p.H : p.K) * p.D;
    const kl_result result =
        p.sgemm('N', 'N', p.N, p.C, width, 1, gradients[i], width, weights[i], p.C, i > 0, dn, p.C);
    if (result.code != KL_OK) return result;
    p.sgemm('T', 'N', width, p.C, p.N, 1, gradients[i], width, saved.normed, p.C, 1,
            kl::data<float>(call->outputs[4 + i]), p.C);
  }
  if (in.ve != nullptr)
    gate_backward(p, in, saved.normed, given[3], kl::data<float>(call->outputs[7]),
                  kl::data<float>(call->outputs[8]), dn);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dx0 = kl::data<float>(call->outputs[1]);
  double dlambda = 0, dmu = 0;
  for (int64_t n = 0; n < p.N; ++n) {
    norm_backward(dn + n * p.C, saved.normed + n * p.C, saved.rms[n], p.C);
    for (int64_t i = n * p.C; i < (n + 1) * p.C; ++i) {
      const float t = given[0][i] + dn[i];
      dx[i] = *in.lambda * t;
      dx0[i] += *in.mu * t;
      dlambda += double{t} * in.x[i];
      dmu += double{t} * in.x0[i];
    }
  }
  *kl::data<float>(call->outputs[2]) += static_cast<float>(dlambda);
  *kl::data<float>(call->outputs[3]) += static_cast<float>(dmu);
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  return p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
}

}  // namespace

KL_EXPORT_KERNEL("block_prelude", accepts, scratch_bytes, saved_bytes, prepare, run);
