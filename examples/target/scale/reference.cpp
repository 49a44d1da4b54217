// The plain kernel: one loop, obviously right.
#include <kernel_lab/kernel.hpp>

namespace {

struct Plan {
  int64_t count;
};

kl_result accepts(const kl_problem* p) {
  return kl::is_f32(p->inputs[0]) && kl::is_contiguous(p->inputs[0]) && kl::is_contiguous(p->outputs[0])
             ? kl::ok()
             : kl::unsupported("packed f32 only");
}
size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->inputs[0].shape[0] * p->inputs[0].shape[1]});
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const float a = static_cast<float>(call->scalars[0]);
  const float* x = kl::data<const float>(call->inputs[0]);
  float* y = kl::data<float>(call->outputs[0]);
  const int64_t count = kl::plan_as<Plan>(plan).count;
  for (int64_t i = 0; i < count; ++i) y[i] = a * x[i];
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("scale", accepts, no_bytes, no_bytes, prepare, run);
