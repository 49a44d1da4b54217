// The plain MLP: each matrix product whole, a pass over the hidden layer between them.
#include <kernel_lab/kernel.hpp>

namespace {

struct Plan {
  int32_t operation;
  int64_t rows, width, hidden;
  decltype(kl_services::sgemm) sgemm;
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]) || p->inputs[i].ndim != 2)
      return kl::unsupported("inputs must be packed f32 matrices");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be packed f32 matrices");
  return kl::ok();
}

int64_t hidden_elements(const kl_problem* p) {
  return p->inputs[0].shape[0] * p->inputs[p->operation == KL_FORWARD ? 1 : 2].shape[0];
}
// forward: relu(h)^2; backward: the same and dh.
size_t scratch_bytes(const kl_problem* p) {
  return static_cast<size_t>(hidden_elements(p)) * (p->operation == KL_FORWARD ? 4 : 8);
}
size_t saved_bytes(const kl_problem* p) { return static_cast<size_t>(hidden_elements(p)) * 4; }

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  const DLTensor& w1 = p->inputs[p->operation == KL_FORWARD ? 1 : 2];
  kl::store(plan,
            Plan{p->operation, p->inputs[0].shape[0], w1.shape[1], w1.shape[0], services->sgemm});
  return kl::ok();
}

float relu(float h) { return h < 0 ? 0 : h; }

kl_result forward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w1 = kl::data<const float>(call->inputs[1]);
  const float* w2 = kl::data<const float>(call->inputs[2]);
  float* y = kl::data<float>(call->outputs[0]);
  float* h = static_cast<float*>(call->saved);
  float* a = static_cast<float*>(call->scratch);
  const int64_t N = p.rows, C = p.width, F = p.hidden;
  if (const kl_result r = p.sgemm('N', 'T', N, F, C, 1, x, C, w1, C, 0, h, F); r.code != KL_OK)
    return r;
  for (int64_t i = 0; i < N * F; ++i) a[i] = relu(h[i]) * relu(h[i]);
  return p.sgemm('N', 'T', N, C, F, 1, a, F, w2, F, 0, y, C);
}

kl_result backward(const Plan& p, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* w1 = kl::data<const float>(call->inputs[2]);
  const float* w2 = kl::data<const float>(call->inputs[3]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dw1 = kl::data<float>(call->outputs[1]);
  float* dw2 = kl::data<float>(call->outputs[2]);
  const float* h = static_cast<const float*>(call->saved);
  const int64_t N = p.rows, C = p.width, F = p.hidden;
  float* a = static_cast<float*>(call->scratch);
  float* dh = a + N * F;
  if (const kl_result r = p.sgemm('N', 'N', N, F, C, 1, dy, C, w2, F, 0, dh, F); r.code != KL_OK)
    return r;
  for (int64_t i = 0; i < N * F; ++i) {
    a[i] = relu(h[i]) * relu(h[i]);
    dh[i] *= 2 * relu(h[i]);
  }
  p.sgemm('N', 'N', N, C, F, 1, dh, F, w1, C, 0, dx, C);
  p.sgemm('T', 'N', F, C, N, 1, dh, F, x, C, 1, dw1, C);
  return p.sgemm('T', 'N', C, F, N, 1, dy, C, a, F, 1, dw2, F);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  return p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
}

}  // namespace

KL_EXPORT_KERNEL("fused_mlp", accepts, scratch_bytes, saved_bytes, prepare, run);
