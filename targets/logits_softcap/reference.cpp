// The plain softcap: one element after the other.
#include <kernel_lab/kernel.hpp>

#include <cmath>

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
  return p->inputs[0].ndim == 2 ? kl::ok() : kl::bad_argument("z must be [N,V]");
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0] * p->inputs[0].shape[1]});
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto s = static_cast<float>(call->scalars[0]);
  const float* z = kl::data<const float>(call->inputs[p.operation == KL_FORWARD ? 0 : 1]);
  const float* dy = kl::data<const float>(call->inputs[0]);
  float* out = kl::data<float>(call->outputs[0]);
  for (int64_t i = 0; i < p.elements; ++i) {
    const float t = std::tanh(z[i] / s);
    out[i] = p.operation == KL_FORWARD ? s * t : dy[i] * (1 - t * t);
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("logits_softcap", accepts, no_bytes, no_bytes, prepare, run);
