// The plain residual add: one element after the other.
#include <kernel_lab/kernel.hpp>

namespace {

struct Plan {
  int64_t elements;
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]))
      return kl::unsupported("inputs must be contiguous f32");
  if (!kl::is_f32(p->outputs[0]) || !kl::is_contiguous(p->outputs[0]))
    return kl::unsupported("the output must be contiguous f32");
  if (p->inputs[0].ndim != 2) return kl::bad_argument("residual must be [N,C]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->inputs[0].shape[0] * p->inputs[0].shape[1]});
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const float* residual = kl::data<const float>(call->inputs[0]);
  const float* update = kl::data<const float>(call->inputs[1]);
  float* sum = kl::data<float>(call->outputs[0]);
  for (int64_t i = 0; i < kl::plan_as<Plan>(plan).elements; ++i) sum[i] = residual[i] + update[i];
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("launch_fusion", accepts, no_bytes, no_bytes, prepare, run);
