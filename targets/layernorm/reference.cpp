// The plain layer normalisation: one row after the other, as the formula reads.
#include <kernel_lab/kernel.hpp>

#include <cmath>

namespace {

struct Plan {
  int32_t operation;
  int64_t rows, columns;
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]))
      return kl::unsupported("inputs must be contiguous f32");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be contiguous f32");
  if (p->inputs[0].ndim != 2) return kl::bad_argument("x must be [N,C]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0], p->inputs[0].shape[1]});
  return kl::ok();
}

struct Moments {
  double mean, scale;  // scale: 1/sqrt(variance + eps)
};

Moments moments_of(const float* x, int64_t columns, double eps) {
  const auto count = static_cast<double>(columns);
  double sum = 0, squares = 0;
  for (int64_t c = 0; c < columns; ++c) sum += x[c];
  for (int64_t c = 0; c < columns; ++c) squares += (x[c] - sum / count) * (x[c] - sum / count);
  return {sum / count, 1.0 / std::sqrt(squares / count + eps)};
}

void forward(const Plan& plan, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w = kl::data<const float>(call->inputs[1]);
  const float* b = kl::data<const float>(call->inputs[2]);
  float* y = kl::data<float>(call->outputs[0]);
  for (int64_t n = 0; n < plan.rows; ++n, x += plan.columns, y += plan.columns) {
    const Moments m = moments_of(x, plan.columns, call->scalars[0]);
    for (int64_t c = 0; c < plan.columns; ++c)
      y[c] = static_cast<float>((x[c] - m.mean) * m.scale * w[c] + b[c]);
  }
}

void backward(const Plan& plan, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* w = kl::data<const float>(call->inputs[2]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dw = kl::data<float>(call->outputs[1]);
  float* db = kl::data<float>(call->outputs[2]);
  const auto count = static_cast<double>(plan.columns);
  for (int64_t n = 0; n < plan.rows;
       ++n, dy += plan.columns, x += plan.columns, dx += plan.columns) {
    const Moments m = moments_of(x, plan.columns, call->scalars[0]);
    const auto normed = [&](int64_t c) { return (x[c] - m.mean) * m.scale; };
    double sum = 0, dot = 0;
    for (int64_t c = 0; c < plan.columns; ++c) {
      sum += double{dy[c]} * w[c];
      dot += double{dy[c]} * w[c] * normed(c);
    }
    for (int64_t c = 0; c < plan.columns; ++c) {
      dx[c] = static_cast<float>(m.scale *
                                 (double{dy[c]} * w[c] - sum / count - normed(c) * dot / count));
      dw[c] += static_cast<float>(dy[c] * normed(c));
      db[c] += dy[c];
    }
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.operation == KL_FORWARD)
    forward(p, call);
  else
    backward(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("layernorm", accepts, no_bytes, no_bytes, prepare, run);
