// The plain rmsnorm of heads: one head after the other, as the formula reads.
#include <kernel_lab/kernel.hpp>

#include <cmath>

namespace {

struct Plan {
  int32_t operation;
  int64_t heads[2], depth;  // all heads of q and of k
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]))
      return kl::unsupported("inputs must be contiguous f32");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be contiguous f32");
  if (p->inputs[0].ndim != 4) return kl::bad_argument("q must be [B,T,H,D]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const int64_t *q = p->inputs[0].shape, *k = p->inputs[1].shape;
  kl::store(plan, Plan{p->operation, {q[0] * q[1] * q[2], k[0] * k[1] * k[2]}, q[3]});
  return kl::ok();
}

float inverse_rms(const float* x, int64_t depth, double eps) {
  double squares = 0;
  for (int64_t d = 0; d < depth; ++d) squares += double{x[d]} * x[d];
  return static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(depth) + eps));
}

void forward(const float* x, float* y, int64_t heads, int64_t depth, double eps) {
  for (int64_t h = 0; h < heads; ++h, x += depth, y += depth) {
    const float r = inverse_rms(x, depth, eps);
    for (int64_t d = 0; d < depth; ++d) y[d] = x[d] * r;
  }
}

void backward(const float* dy, const float* x, float* dx, int64_t heads, int64_t depth,
              double eps) {
  for (int64_t h = 0; h < heads; ++h, dy += depth, x += depth, dx += depth) {
    const float r = inverse_rms(x, depth, eps);
    double dot = 0;
    for (int64_t d = 0; d < depth; ++d) dot += double{dy[d]} * x[d] * r;
    const float mean = static_cast<float>(dot / static_cast<double>(depth));
    for (int64_t d = 0; d < depth; ++d) dx[d] = r * (dy[d] - x[d] * r * mean);
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  for (int which = 0; which < 2; ++which) {
    const float* first = kl::data<const float>(call->inputs[which]);
    float* out = kl::data<float>(call->outputs[which]);
    if (p.operation == KL_FORWARD)
      forward(first, out, p.heads[which], p.depth, call->scalars[0]);
    else
      backward(first, kl::data<const float>(call->inputs[2 + which]), out, p.heads[which], p.depth,
               call->scalars[0]);
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("qk_rmsnorm", accepts, no_bytes, no_bytes, prepare, run);
