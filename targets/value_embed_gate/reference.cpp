// The plain gate: one head of one row after the other.
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>

namespace {

constexpr int64_t kGateColumns = 32;

struct Plan {
  int32_t operation;
  int64_t rows, heads, width;  // N, K, D
  int64_t x_row, dx_row;       // elements from one row to the next
};

// x and dx may have gaps between their rows.
bool is_columns(const DLTensor& t) {
  return kl::is_f32(t) && t.ndim == 2 && (t.strides == nullptr || t.strides[1] == 1);
}
int64_t row_stride(const DLTensor& t) { return t.strides == nullptr ? t.shape[1] : t.strides[0]; }

kl_result accepts(const kl_problem* p) {
  const int x = p->operation == KL_FORWARD ? 0 : 1, dx = p->operation == KL_FORWARD ? -1 : 0;
  for (int i = 0; i < p->input_count; ++i)
    if (i == x ? !is_columns(p->inputs[i])
               : !kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]))
      return kl::unsupported("inputs must be packed f32, but for the rows of x");
  for (int i = 0; i < p->output_count; ++i)
    if (i == dx ? !is_columns(p->outputs[i])
                : !kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be packed f32, but for the rows of dx");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const DLTensor& ve = p->inputs[2];
  kl::store(plan, Plan{p->operation, ve.shape[0], ve.shape[1], ve.shape[2],
                       row_stride(p->inputs[p->operation == KL_FORWARD ? 0 : 1]),
                       p->operation == KL_FORWARD ? 0 : row_stride(p->outputs[0])});
  return kl::ok();
}

float gate_of(const float* x, const float* wg) {
  double s = 0;
  for (int64_t c = 0; c < kGateColumns; ++c) s += double{x[c]} * wg[c];
  return static_cast<float>(2 / (1 + std::exp(-s)));
}

void forward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* v = kl::data<const float>(call->inputs[1]);
  const float* ve = kl::data<const float>(call->inputs[2]);
  const float* wg = kl::data<const float>(call->inputs[3]);
  float* y = kl::data<float>(call->outputs[0]);
  for (int64_t n = 0; n < p.rows; ++n)
    for (int64_t k = 0; k < p.heads; ++k) {
      const float gate = gate_of(x + n * p.x_row, wg + k * kGateColumns);
      for (int64_t d = 0; d < p.width; ++d) *y++ = *v++ + gate * *ve++;
    }
}

void backward(const Plan& p, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* ve = kl::data<const float>(call->inputs[2]);
  const float* wg = kl::data<const float>(call->inputs[3]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dve = kl::data<float>(call->outputs[1]);
  float* dwg = kl::data<float>(call->outputs[2]);
  for (int64_t n = 0; n < p.rows; ++n) {
    std::fill(dx + n * p.dx_row, dx + n * p.dx_row + kGateColumns, 0.0f);
    for (int64_t k = 0; k < p.heads; ++k) {
      const float gate = gate_of(x + n * p.x_row, wg + k * kGateColumns);
      double dot = 0;
      for (int64_t d = 0; d < p.width; ++d) {
        dot += double{*dy} * *ve++;
        *dve++ = gate * *dy++;
      }
      const float ds = static_cast<float>(dot) * gate * (1 - gate / 2);
      for (int64_t c = 0; c < kGateColumns; ++c) {
        dx[n * p.dx_row + c] += ds * wg[k * kGateColumns + c];
        dwg[k * kGateColumns + c] += ds * x[n * p.x_row + c];
      }
    }
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("value_embed_gate", accepts, no_bytes, no_bytes, prepare, run);
