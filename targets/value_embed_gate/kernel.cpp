// Gated value embeddings for CPUs: one pass, rows divided among threads.
//   forward   read v and ve, write y; the gates are kept
//   backward  read dy and ve, write dve and dx; each thread sums a dwg of its own in scratch, which
//             are added in order: the same bits for the same number of threads
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cmath>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kGateColumns = 32;
constexpr int64_t kElementsPerThread = 64 * 1024;    // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t operation;
  int32_t slots;               // shares of the rows; one thread each
  int64_t rows, heads, width;  // N, K, D
  int64_t x_row, dx_row;       // elements from one row to the next
};

bool is_values(const DLTensor& t, const DLTensor& like) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 3 && t.shape[0] == like.shape[0] &&
         t.shape[1] == like.shape[1] && t.shape[2] == like.shape[2];
}
bool is_gate_weight(const DLTensor& t, int64_t heads) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == heads &&
         t.shape[1] == kGateColumns;
}
// [N,32], rows any distance apart.
bool is_columns(const DLTensor& t, int64_t rows) {
  return kl::is_f32(t) && t.ndim == 2 && t.shape[0] == rows && t.shape[1] == kGateColumns &&
         (t.strides == nullptr || t.strides[1] == 1);
}
int64_t row_stride(const DLTensor& t) { return t.strides == nullptr ? t.shape[1] : t.strides[0]; }

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not value_embed_gate's");
  if (p->input_count != 4 || p->output_count != (forward ? 1 : 3))
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& ve = p->inputs[2];
  if (ve.ndim != 3) return kl::bad_argument("ve must be [N,K,D]");
  if (!is_columns(p->inputs[forward ? 0 : 1], ve.shape[0]) ||
      (!forward && !is_columns(p->outputs[0], ve.shape[0])))
    return kl::unsupported("x, dx: f32 [N,32], elements of a row side by side");
  if (!is_values(ve, ve) || !is_values(p->inputs[forward ? 1 : 0], ve) ||
      !is_values(p->outputs[forward ? 0 : 1], ve))
    return kl::unsupported("v, ve, y, dy, dve: packed f32 [N,K,D]");
  if (!is_gate_weight(p->inputs[3], ve.shape[1]) ||
      (!forward && !is_gate_weight(p->outputs[2], ve.shape[1])))
    return kl::unsupported("wg, dwg: packed f32 [K,32]");
  return kl::ok();
}

int32_t slots_of(const kl_problem* p) {
  const int64_t* shape = p->inputs[2].shape;
  const int64_t worth = std::max<int64_t>(1, shape[0] * shape[1] * shape[2] / kElementsPerThread);
  return static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth));
}

// A slot's share of dwg: whole vectors and a page; threads with shares side by side are slower.
int64_t padded(int64_t heads) { return heads * kGateColumns + 1024; }

size_t scratch_bytes(const kl_problem* p) {
  if (p->operation != KL_BACKWARD) return 0;
  return static_cast<size_t>(slots_of(p) * padded(p->inputs[2].shape[1])) * sizeof(float);
}

// The gates.
size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(p->inputs[2].shape[0] * p->inputs[2].shape[1]) * sizeof(float);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t* shape = p->inputs[2].shape;
  const bool forward = p->operation == KL_FORWARD;
  kl::store(plan,
            Plan{p->operation, slots_of(p), shape[0], shape[1], shape[2],
                 row_stride(p->inputs[forward ? 0 : 1]), forward ? 0 : row_stride(p->outputs[0])});
  return kl::ok();
}

inline Lanes load(const float* from, int64_t count) {
  return count == kLanes ? kl::load(from) : kl::load_some(from, count);
}
inline void store(float* to, Lanes v, int64_t count) {
  if (count == kLanes)
    kl::store(to, v);
  else
    kl::store_some(to, v, count);
}

float gate_of(const float* x, const float* wg) {
  Lanes sum{};
  for (int64_t c = 0; c < kGateColumns; c += kLanes) sum += kl::load(x + c) * kl::load(wg + c);
  return 2 / (1 + std::exp(-kl::sum_of(sum)));
}

// rows(first, end, slot) of every slot, on a thread each.
template <class F>
void divide(const Plan& plan, F rows) {
  if (plan.slots == 1) return rows(0, plan.rows, 0);
#pragma omp parallel for schedule(static, 1) num_threads(plan.slots)
  for (int32_t slot = 0; slot < plan.slots; ++slot)
    rows(plan.rows * slot / plan.slots, plan.rows * (slot + 1) / plan.slots, slot);
}

template <bool streamed>
void forward(const Plan& plan, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* v = kl::data<const float>(call->inputs[1]);
  const float* ve = kl::data<const float>(call->inputs[2]);
  const float* wg = kl::data<const float>(call->inputs[3]);
  float* y = kl::data<float>(call->outputs[0]);
  float* gates = static_cast<float*>(call->saved);
  const int64_t K = plan.heads, D = plan.width;
  divide(plan, [&](int64_t first, int64_t end, int32_t) {
    for (int64_t n = first; n < end; ++n)
      for (int64_t k = 0; k < K; ++k) {
        const float gate = gate_of(x + n * plan.x_row, wg + k * kGateColumns);
        gates[n * K + k] = gate;
        const int64_t at = (n * K + k) * D;
        for (int64_t d = 0; d < D; d += kLanes) {
          const int64_t count = std::min<int64_t>(kLanes, D - d);
          const Lanes sum = load(v + at + d, count) + kl::lanes(gate) * load(ve + at + d, count);
          if constexpr (streamed)
            kl::stream(y + at + d, sum);
          else
            store(y + at + d, sum, count);
        }
      }
    if constexpr (streamed) kl::stream_fence();
  });
}

// One head of one row: writes dve and returns dy . ve.
template <bool streamed>
float head_backward(const float* dy, const float* ve, float* dve, Lanes gate, int64_t D) {
  Lanes dot{};
  for (int64_t d = 0; d < D; d += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, D - d);
    const Lanes g = load(dy + d, count);
    dot += g * load(ve + d, count);
    if constexpr (streamed)
      kl::stream(dve + d, gate * g);
    else
      store(dve + d, gate * g, count);
  }
  return kl::sum_of(dot);
}

template <bool streamed>
void backward(const Plan& plan, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* ve = kl::data<const float>(call->inputs[2]);
  const float* wg = kl::data<const float>(call->inputs[3]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dve = kl::data<float>(call->outputs[1]);
  float* dwg = kl::data<float>(call->outputs[2]);
  float* shares = static_cast<float*>(call->scratch);
  const float* gates = static_cast<const float*>(call->saved);
  const int64_t K = plan.heads, D = plan.width;
  divide(plan, [&](int64_t first, int64_t end, int32_t slot) {
    float* share = shares + slot * padded(K);
    std::fill(share, share + K * kGateColumns, 0.0f);
    for (int64_t n = first; n < end; ++n) {
      const float* row = x + n * plan.x_row;
      Lanes sums[kGateColumns / kLanes] = {};  // of dx
      for (int64_t k = 0; k < K; ++k) {
        const float gate = gates[n * K + k];
        const int64_t at = (n * K + k) * D;
        const float dot = head_backward<streamed>(dy + at, ve + at, dve + at, kl::lanes(gate), D);
        const Lanes ds = kl::lanes(dot * gate * (1 - gate / 2));
        for (int64_t i = 0; i < kGateColumns / kLanes; ++i) {
          const int64_t c = k * kGateColumns + i * kLanes;
          sums[i] += ds * kl::load(wg + c);
          kl::store(share + c, kl::load(share + c) + ds * kl::load(row + i * kLanes));
        }
      }
      for (int64_t i = 0; i < kGateColumns / kLanes; ++i)
        kl::store(dx + n * plan.dx_row + i * kLanes, sums[i]);
    }
    if constexpr (streamed) kl::stream_fence();
  });
  for (int32_t slot = 0; slot < plan.slots; ++slot)
    for (int64_t c = 0; c < K * kGateColumns; ++c) dwg[c] += shares[slot * padded(K) + c];
}

bool worth_streaming(const Plan& plan, const float* out) {
  return plan.rows * plan.heads * plan.width * int64_t{sizeof(float)} >= kStreamBytes &&
         plan.width % kLanes == 0 && reinterpret_cast<uintptr_t>(out) % kl::kLaneBytes == 0;
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool is_forward = p.operation == KL_FORWARD;
  const bool streamed =
      worth_streaming(p, kl::data<const float>(call->outputs[is_forward ? 0 : 1]));
  if (is_forward)
    streamed ? forward<true>(p, call) : forward<false>(p, call);
  else
    streamed ? backward<true>(p, call) : backward<false>(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("value_embed_gate", accepts, scratch_bytes, saved_bytes, prepare, run);
