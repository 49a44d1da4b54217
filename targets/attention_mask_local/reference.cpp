// The plain mask: every element asks whether its query sees its key.
#include <kernel_lab/kernel.hpp>

namespace {

constexpr float kHidden = -0x1p100f;

struct Plan {
  int64_t L, T;
};

kl_result accepts(const kl_problem* p) {
  if (p->inputs[0].ndim != 1 || !kl::is_i32(p->inputs[0]))
    return kl::unsupported("windows: i32 [L]");
  const DLTensor& mask = p->outputs[0];
  if (mask.ndim != 3 || !kl::is_f32(mask) || !kl::is_contiguous(mask))
    return kl::unsupported("mask: packed f32 [L,T,T]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->outputs[0].shape[0], p->outputs[0].shape[1]});
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const int32_t* windows = kl::data<const int32_t>(call->inputs[0]);
  float* mask = kl::data<float>(call->outputs[0]);
  for (int64_t l = 0; l < p.L; ++l)
    for (int64_t i = 0; i < p.T; ++i)
      for (int64_t j = 0; j < p.T; ++j) *mask++ = i - windows[l] <= j && j <= i ? 0.0f : kHidden;
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("attention_mask_local", accepts, no_bytes, no_bytes, prepare, run);
