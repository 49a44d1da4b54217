// The plain rotary embedding and norm: one head after the other, turned, then divided by its rms.
#include <kernel_lab/kernel.hpp>

#include <cmath>

namespace {

struct Plan {
  int32_t operation;
  int64_t batch, length, heads[2], half;  // heads of q and of k
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]))
      return kl::unsupported("inputs must be contiguous f32");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be contiguous f32");
  if (p->inputs[0].ndim != 4) return kl::bad_argument("q must be [B,T,H,D]");
  if (p->inputs[0].shape[3] != 2 * p->inputs[p->input_count - 1].shape[1])
    return kl::bad_argument("cos, sin must be [T,D/2]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const int64_t* q = p->inputs[0].shape;
  kl::store(plan, Plan{p->operation, q[0], q[1], {q[2], p->inputs[1].shape[2]}, q[3] / 2});
  return kl::ok();
}

// An element of a head after the turn; the first half of d pairs with the second.
double turned(const float* x, const float* c, const float* s, int64_t half, int64_t d) {
  return d < half ? double{x[d]} * c[d] + double{x[d + half]} * s[d]
                  : double{x[d]} * c[d - half] - double{x[d - half]} * s[d - half];
}

double inverse_rms(const float* x, const float* c, const float* s, int64_t half, double eps) {
  double squares = 0;
  for (int64_t d = 0; d < 2 * half; ++d) {
    const double y = turned(x, c, s, half, d);
    squares += y * y;
  }
  return 1.0 / std::sqrt(squares / static_cast<double>(2 * half) + eps);
}

void forward_head(const float* x, const float* c, const float* s, float* out, int64_t half,
                  double eps) {
  const double r = inverse_rms(x, c, s, half, eps);
  for (int64_t d = 0; d < 2 * half; ++d) out[d] = static_cast<float>(turned(x, c, s, half, d) * r);
}

void backward_head(const float* dout, const float* x, const float* c, const float* s, float* dx,
                   int64_t half, double eps) {
  const double r = inverse_rms(x, c, s, half, eps);
  double mean = 0;
  for (int64_t d = 0; d < 2 * half; ++d)
    mean += dout[d] * turned(x, c, s, half, d) * r / static_cast<double>(2 * half);
  const auto dy = [&](int64_t d) { return r * (dout[d] - turned(x, c, s, half, d) * r * mean); };
  for (int64_t d = 0; d < half; ++d) {
    dx[d] = static_cast<float>(dy(d) * c[d] - dy(d + half) * s[d]);
    dx[d + half] = static_cast<float>(dy(d + half) * c[d] + dy(d) * s[d]);
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool is_forward = p.operation == KL_FORWARD;
  const float* cosine = kl::data<const float>(call->inputs[is_forward ? 2 : 4]);
  const float* sine = kl::data<const float>(call->inputs[is_forward ? 3 : 5]);
  for (int which = 0; which < 2; ++which) {
    const float* first = kl::data<const float>(call->inputs[which]);
    const float* x = is_forward ? first : kl::data<const float>(call->inputs[2 + which]);
    float* out = kl::data<float>(call->outputs[which]);
    for (int64_t head = 0; head < p.batch * p.length * p.heads[which]; ++head) {
      const int64_t at = head * 2 * p.half, angle = head / p.heads[which] % p.length * p.half;
      const float *c = cosine + angle, *s = sine + angle;
      if (is_forward)
        forward_head(x + at, c, s, out + at, p.half, call->scalars[0]);
      else
        backward_head(first + at, x + at, c, s, out + at, p.half, call->scalars[0]);
    }
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("rope_qk_fused", accepts, no_bytes, no_bytes, prepare, run);
