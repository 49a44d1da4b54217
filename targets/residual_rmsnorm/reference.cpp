// The plain residual add and rmsnorm: one row after the other, as the formula reads.
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
  if (p->inputs[0].ndim != 2) return kl::bad_argument("residual must be [N,C]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0], p->inputs[0].shape[1]});
  return kl::ok();
}

float inverse_rms(const float* s, int64_t columns, double eps) {
  double squares = 0;
  for (int64_t c = 0; c < columns; ++c) squares += double{s[c]} * s[c];
  return static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(columns) + eps));
}

void forward(const Plan& plan, const kl_call* call) {
  const float* residual = kl::data<const float>(call->inputs[0]);
  const float* update = kl::data<const float>(call->inputs[1]);
  float* sum = kl::data<float>(call->outputs[0]);
  float* y = kl::data<float>(call->outputs[1]);
  for (int64_t i = 0; i < plan.rows * plan.columns; ++i) sum[i] = residual[i] + update[i];
  for (int64_t n = 0; n < plan.rows; ++n, sum += plan.columns, y += plan.columns) {
    const float r = inverse_rms(sum, plan.columns, call->scalars[0]);
    for (int64_t c = 0; c < plan.columns; ++c) y[c] = sum[c] * r;
  }
}

void backward(const Plan& plan, const kl_call* call) {
  const int64_t columns = plan.columns;
  for (int64_t n = 0; n < plan.rows; ++n) {
    const float* dsum = kl::data<const float>(call->inputs[0]) + n * columns;
    const float* dy = kl::data<const float>(call->inputs[1]) + n * columns;
    const float* sum = kl::data<const float>(call->inputs[2]) + n * columns;
    float* dresidual = kl::data<float>(call->outputs[0]) + n * columns;
    const float r = inverse_rms(sum, columns, call->scalars[0]);
    double dot = 0;
    for (int64_t c = 0; c < columns; ++c) dot += double{dy[c]} * sum[c] * r;
    const float mean = static_cast<float>(dot / static_cast<double>(columns));
    for (int64_t c = 0; c < columns; ++c) dresidual[c] = dsum[c] + r * (dy[c] - sum[c] * r * mean);
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

KL_EXPORT_KERNEL("residual_rmsnorm", accepts, no_bytes, no_bytes, prepare, run);
