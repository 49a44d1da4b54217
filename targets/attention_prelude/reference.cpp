// The plain projections, whole, then the gate, one head of one row after the other.
#include <kernel_lab/kernel.hpp>

#include <cmath>

namespace {

constexpr int64_t kGateColumns = 32;

struct Plan {
  int32_t operation;
  int64_t rows, width, heads, kv_heads, head_width;  // N, C, H, K, D
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
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 3);  // x, wq, wk, wv, ve, wg
  if (kl::is_present(in[4]) && in[0].shape[1] < kGateColumns)
    return kl::unsupported("the gate reads 32 columns of x");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 3);
  kl::store(plan, Plan{p->operation, in[0].shape[0], in[0].shape[1], in[1].shape[0], in[2].shape[0],
                       in[1].shape[1], services->sgemm});
  return kl::ok();
}

float gate_of(const float* x, const float* wg) {
  double s = 0;
  for (int64_t c = 0; c < kGateColumns; ++c) s += double{x[c]} * wg[c];
  return static_cast<float>(2 / (1 + std::exp(-s)));
}

kl_result forward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const int64_t widths[] = {p.heads * p.head_width, p.kv_heads * p.head_width,
                            p.kv_heads * p.head_width};
  for (int i = 0; i < 3; ++i) {
    const kl_result result = p.sgemm('N', 'T', p.rows, widths[i], p.width, 1, x, p.width,
                                     kl::data<const float>(call->inputs[1 + i]), p.width, 0,
                                     kl::data<float>(call->outputs[i]), widths[i]);
    if (result.code != KL_OK) return result;
  }
  if (!kl::is_present(call->inputs[4])) return kl::ok();
  const float* ve = kl::data<const float>(call->inputs[4]);
  const float* wg = kl::data<const float>(call->inputs[5]);
  float* v = kl::data<float>(call->outputs[2]);
  for (int64_t n = 0; n < p.rows; ++n)
    for (int64_t k = 0; k < p.kv_heads; ++k) {
      const float gate = gate_of(x + n * p.width, wg + k * kGateColumns);
      for (int64_t d = 0; d < p.head_width; ++d) *v++ += gate * *ve++;
    }
  return kl::ok();
}

kl_result backward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[3]);
  float* dx = kl::data<float>(call->outputs[0]);
  const int64_t widths[] = {p.heads * p.head_width, p.kv_heads * p.head_width,
                            p.kv_heads * p.head_width};
  for (int i = 0; i < 3; ++i) {
    const float* dy = kl::data<const float>(call->inputs[i]);
    const kl_result result =
        p.sgemm('N', 'N', p.rows, p.width, widths[i], 1, dy, widths[i],
                kl::data<const float>(call->inputs[4 + i]), p.width, i > 0, dx, p.width);
    if (result.code != KL_OK) return result;
    p.sgemm('T', 'N', widths[i], p.width, p.rows, 1, dy, widths[i], x, p.width, 1,
            kl::data<float>(call->outputs[1 + i]), p.width);
  }
  if (!kl::is_present(call->inputs[7])) return kl::ok();
  const float* dv = kl::data<const float>(call->inputs[2]);
  const float* ve = kl::data<const float>(call->inputs[7]);
  const float* wg = kl::data<const float>(call->inputs[8]);
  float* dve = kl::data<float>(call->outputs[4]);
  float* dwg = kl::data<float>(call->outputs[5]);
  for (int64_t n = 0; n < p.rows; ++n)
    for (int64_t k = 0; k < p.kv_heads; ++k) {
      const float gate = gate_of(x + n * p.width, wg + k * kGateColumns);
      double dot = 0;
      for (int64_t d = 0; d < p.head_width; ++d) {
        dot += double{*dv} * *ve++;
        *dve++ = gate * *dv++;
      }
      const float ds = static_cast<float>(dot) * gate * (1 - gate / 2);
      for (int64_t c = 0; c < kGateColumns; ++c) {
        dx[n * p.width + c] += ds * wg[k * kGateColumns + c];
        dwg[k * kGateColumns + c] += ds * x[n * p.width + c];
      }
    }
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  return p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
}

}  // namespace

KL_EXPORT_KERNEL("attention_prelude", accepts, no_bytes, no_bytes, prepare, run);
