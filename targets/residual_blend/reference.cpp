// The plain blend: one element after the other, the sums in double.
#include <kernel_lab/kernel.hpp>

namespace {

struct Plan {
  int32_t operation;
  int64_t elements;
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
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0] * p->inputs[0].shape[1]});
  return kl::ok();
}

void forward(int64_t elements, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* x0 = kl::data<const float>(call->inputs[1]);
  const float lambda = *kl::data<const float>(call->inputs[2]);
  const float mu = *kl::data<const float>(call->inputs[3]);
  float* y = kl::data<float>(call->outputs[0]);
  for (int64_t i = 0; i < elements; ++i) y[i] = lambda * x[i] + mu * x0[i];
}

void backward(int64_t elements, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* x0 = kl::data<const float>(call->inputs[2]);
  const float lambda = *kl::data<const float>(call->inputs[3]);
  const float mu = *kl::data<const float>(call->inputs[4]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dx0 = kl::data<float>(call->outputs[1]);
  double dlambda = 0, dmu = 0;
  for (int64_t i = 0; i < elements; ++i) {
    dlambda += double{dy[i]} * x[i];
    dmu += double{dy[i]} * x0[i];
    dx[i] = lambda * dy[i];
    dx0[i] += mu * dy[i];
  }
  *kl::data<float>(call->outputs[2]) += static_cast<float>(dlambda);
  *kl::data<float>(call->outputs[3]) += static_cast<float>(dmu);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.operation == KL_FORWARD)
    forward(p.elements, call);
  else
    backward(p.elements, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("residual_blend", accepts, no_bytes, no_bytes, prepare, run);
