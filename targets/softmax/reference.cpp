// The plain softmax: one row after the other, as the formula reads.
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>

namespace {

struct Plan {
  int32_t operation;
  int64_t rows, mask_rows, K;
};

kl_result accepts(const kl_problem* p) {
  for (const DLTensor* t : {&p->inputs[0], &p->inputs[1], &p->outputs[0]})
    if (kl::is_present(*t) && (!kl::is_f32(*t) || !kl::is_contiguous(*t)))
      return kl::unsupported("tensors must be contiguous f32");
  if (p->inputs[0].ndim != 3) return kl::bad_argument("z must be [N,T,K]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const int64_t* shape = p->inputs[0].shape;
  kl::store(plan, Plan{p->operation, shape[0] * shape[1], shape[1], shape[2]});
  return kl::ok();
}

void forward(const Plan& plan, const kl_call* call) {
  const float* z = kl::data<const float>(call->inputs[0]);
  const float* mask =
      kl::is_present(call->inputs[1]) ? kl::data<const float>(call->inputs[1]) : nullptr;
  float* p = kl::data<float>(call->outputs[0]);
  for (int64_t n = 0; n < plan.rows; ++n, z += plan.K, p += plan.K) {
    for (int64_t k = 0; k < plan.K; ++k)
      p[k] = z[k] + (mask ? mask[n % plan.mask_rows * plan.K + k] : 0.0f);
    const float largest = *std::max_element(p, p + plan.K);
    double sum = 0;
    for (int64_t k = 0; k < plan.K; ++k) sum += p[k] = std::exp(p[k] - largest);
    for (int64_t k = 0; k < plan.K; ++k) p[k] = static_cast<float>(p[k] / sum);
  }
}

void backward(const Plan& plan, const kl_call* call) {
  const float* dp = kl::data<const float>(call->inputs[0]);
  const float* p = kl::data<const float>(call->inputs[1]);
  float* dz = kl::data<float>(call->outputs[0]);
  for (int64_t n = 0; n < plan.rows; ++n, dp += plan.K, p += plan.K, dz += plan.K) {
    double sum = 0;
    for (int64_t k = 0; k < plan.K; ++k) sum += double{dp[k]} * p[k];
    for (int64_t k = 0; k < plan.K; ++k) dz[k] = static_cast<float>(p[k] * (dp[k] - sum));
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

KL_EXPORT_KERNEL("softmax", accepts, no_bytes, no_bytes, prepare, run);
