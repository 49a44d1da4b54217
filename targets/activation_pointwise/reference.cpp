// The plain squared ReLU: one element after the other.
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
  if (!kl::is_f32(p->outputs[0]) || !kl::is_contiguous(p->outputs[0]))
    return kl::unsupported("the output must be contiguous f32");
  if (p->inputs[0].ndim != 2) return kl::bad_argument("h must be [N,C]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0] * p->inputs[0].shape[1]});
  return kl::ok();
}

float relu(float h) { return h < 0 ? 0 : h; }

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  float* out = kl::data<float>(call->outputs[0]);
  if (p.operation == KL_FORWARD) {
    const float* h = kl::data<const float>(call->inputs[0]);
    for (int64_t i = 0; i < p.elements; ++i) out[i] = relu(h[i]) * relu(h[i]);
  } else {
    const float* dy = kl::data<const float>(call->inputs[0]);
    const float* h = kl::data<const float>(call->inputs[1]);
    for (int64_t i = 0; i < p.elements; ++i) out[i] = 2 * relu(h[i]) * dy[i];
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("activation_pointwise", accepts, no_bytes, no_bytes, prepare, run);
