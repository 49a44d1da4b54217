// The plain product: whole, then what is added to it, element by element.
#include <kernel_lab/kernel.hpp>

namespace {

struct Plan {
  int32_t operation;
  int64_t rows, inner, columns;  // M, K, P
  decltype(kl_services::sgemm) sgemm;
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (kl::is_present(p->inputs[i]) &&
        (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i])))
      return kl::unsupported("inputs must be packed f32");
  for (int i = 0; i < p->output_count; ++i)
    if (kl::is_present(p->outputs[i]) &&
        (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i])))
      return kl::unsupported("outputs must be packed f32");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 1);  // x, w
  kl::store(plan,
            Plan{p->operation, in[0].shape[0], in[0].shape[1], in[1].shape[0], services->sgemm});
  return kl::ok();
}

const float* optional(const DLTensor& t) {
  return kl::is_present(t) ? kl::data<const float>(t) : nullptr;
}

kl_result forward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w = kl::data<const float>(call->inputs[1]);
  const float* bias = optional(call->inputs[2]);
  const float* residual = optional(call->inputs[3]);
  float* y = kl::data<float>(call->outputs[0]);
  const int64_t M = p.rows, K = p.inner, P = p.columns;
  const kl_result result = p.sgemm('N', 'T', M, P, K, 1, x, K, w, K, 0, y, P);
  for (int64_t i = 0; i < M * P; ++i) {
    if (bias != nullptr) y[i] += bias[i % P];
    if (residual != nullptr) y[i] += residual[i];
  }
  return result;
}

kl_result backward(const Plan& p, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* w = kl::data<const float>(call->inputs[2]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dw = kl::data<float>(call->outputs[1]);
  const int64_t M = p.rows, K = p.inner, P = p.columns;
  if (kl::is_present(call->outputs[2])) {
    float* dbias = kl::data<float>(call->outputs[2]);
    for (int64_t i = 0; i < M * P; ++i) dbias[i % P] += dy[i];
  }
  const kl_result result = p.sgemm('N', 'N', M, K, P, 1, dy, P, w, K, 0, dx, K);
  if (result.code != KL_OK) return result;
  return p.sgemm('T', 'N', P, K, M, 1, dy, P, x, K, 1, dw, K);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  return p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
}

}  // namespace

KL_EXPORT_KERNEL("matmul_epilogue", accepts, no_bytes, no_bytes, prepare, run);
