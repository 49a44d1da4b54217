// The projections for CPUs, a block of rows at a time on one thread, so that v is still in its
// cache when the gate adds to it.
//   forward   q, k, v of the block by sgemm, then v += gate * ve; the gates are kept
//   backward  dx of the block by sgemm, then the gate's part of it, dve, and a dwg of each thread's
//             own in scratch; the weights' gradients are whole products on all threads
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cmath>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kGateColumns = 32;
constexpr int64_t kBlockRows = 512;     // fewer cost more packing of the weights
constexpr int64_t kRowsPerThread = 64;  // fewer are not worth a thread

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, width, heads, kv_heads, head_width;  // N, C, H, K, D
  decltype(kl_services::sgemm) sgemm;
  int64_t q_width() const { return heads * head_width; }
  int64_t kv_width() const { return kv_heads * head_width; }
};

bool is_packed(const DLTensor& t, int64_t a, int64_t b) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == a && t.shape[1] == b;
}
bool is_packed(const DLTensor& t, int64_t a, int64_t b, int64_t c) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 3 && t.shape[0] == a &&
         t.shape[1] == b && t.shape[2] == c;
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not attention_prelude's");
  if (p->input_count != (forward ? 6 : 9) || p->output_count != (forward ? 3 : 6))
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor* in = p->inputs + (forward ? 0 : 3);  // x, wq, wk, wv, ve, wg
  if (in[0].ndim != 2 || in[1].ndim != 3 || in[2].ndim != 3)
    return kl::bad_argument("x is [N,C], wq [H,D,C], wk [K,D,C]");
  const int64_t N = in[0].shape[0], C = in[0].shape[1];
  const int64_t H = in[1].shape[0], K = in[2].shape[0], D = in[1].shape[1];
  if (!is_packed(in[0], N, C) || !is_packed(in[1], H, D, C) || !is_packed(in[2], K, D, C) ||
      !is_packed(in[3], K, D, C))
    return kl::unsupported("x: packed f32 [N,C], wq: [H,D,C], wk, wv: [K,D,C]");
  const DLTensor* heads = forward ? p->outputs : p->inputs;  // q, k, v or their gradients
  if (!is_packed(heads[0], N, H, D) || !is_packed(heads[1], N, K, D) ||
      !is_packed(heads[2], N, K, D))
    return kl::unsupported("q, dq: packed f32 [N,H,D], k, v, dk, dv: [N,K,D]");
  const bool gated = kl::is_present(in[4]);
  if (gated != kl::is_present(in[5])) return kl::bad_argument("ve and wg come together");
  if (gated && (!is_packed(in[4], N, K, D) || !is_packed(in[5], K, kGateColumns)))
    return kl::unsupported("ve: packed f32 [N,K,D], wg: [K,32]");
  if (gated && C < kGateColumns) return kl::unsupported("the gate reads 32 columns of x");
  if (forward) return kl::ok();
  const DLTensor* out = p->outputs;
  if (!is_packed(out[0], N, C) || !is_packed(out[1], H, D, C) || !is_packed(out[2], K, D, C) ||
      !is_packed(out[3], K, D, C))
    return kl::unsupported("dx: packed f32 [N,C], dwq: [H,D,C], dwk, dwv: [K,D,C]");
  if (gated && (!is_packed(out[4], N, K, D) || !is_packed(out[5], K, kGateColumns)))
    return kl::unsupported("dve: packed f32 [N,K,D], dwg: [K,32]");
  return kl::ok();
}

Plan plan_of(const kl_problem* p, decltype(kl_services::sgemm) sgemm) {
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 3);
  const int64_t worth = std::max<int64_t>(1, in[0].shape[0] / kRowsPerThread);
  return {p->operation,   static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
          in[0].shape[0], in[0].shape[1],
          in[1].shape[0], in[2].shape[0],
          in[1].shape[1], sgemm};
}

bool is_gated(const kl_problem* p) {
  return kl::is_present(p->inputs[p->operation == KL_FORWARD ? 4 : 7]);
}

// A thread's share of dwg: whole vectors and a page; threads with shares side by side are slower.
int64_t padded(int64_t kv_heads) { return kv_heads * kGateColumns + 1024; }

size_t scratch_bytes(const kl_problem* p) {
  if (p->operation == KL_FORWARD || !is_gated(p)) return 0;
  const Plan plan = plan_of(p, nullptr);
  return static_cast<size_t>(plan.threads * padded(plan.kv_heads)) * sizeof(float);
}

// The gates.
size_t saved_bytes(const kl_problem* p) {
  if (!is_gated(p)) return 0;
  const Plan plan = plan_of(p, nullptr);
  return static_cast<size_t>(plan.rows * plan.kv_heads) * sizeof(float);
}

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p, services->sgemm));
  return kl::ok();
}

// body(first, end, thread) for the blocks of each thread's share of the rows, in order.
template <class F>
int32_t for_blocks(const Plan& p, F body) {
  const int64_t rounds = (p.rows + p.threads * kBlockRows - 1) / (p.threads * kBlockRows);
  int32_t code = KL_OK;
#pragma omp parallel for schedule(static, 1) num_threads(p.threads) reduction(max : code)
  for (int32_t thread = 0; thread < p.threads; ++thread)
    for (int64_t round = 0; round < rounds; ++round) {
      const int64_t block = thread * rounds + round, blocks = p.threads * rounds;
      code =
          std::max(code, body(p.rows * block / blocks, p.rows * (block + 1) / blocks, thread).code);
    }
  return code;
}

float gate_of(const float* x, const float* wg) {
  Lanes sum{};
  for (int64_t c = 0; c < kGateColumns; c += kLanes) sum += kl::load(x + c) * kl::load(wg + c);
  return 2 / (1 + std::exp(-kl::sum_of(sum)));
}

kl_result forward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const bool gated = kl::is_present(call->inputs[4]);
  const float* ve = gated ? kl::data<const float>(call->inputs[4]) : nullptr;
  const float* wg = gated ? kl::data<const float>(call->inputs[5]) : nullptr;
  float* gates = static_cast<float*>(call->saved);
  const int64_t widths[] = {p.q_width(), p.kv_width(), p.kv_width()};
  const auto block = [&](int64_t first, int64_t end, int32_t) {
    for (int i = 0; i < 3; ++i) {
      const kl_result result =
          p.sgemm('N', 'T', end - first, widths[i], p.width, 1, x + first * p.width, p.width,
                  kl::data<const float>(call->inputs[1 + i]), p.width, 0,
                  kl::data<float>(call->outputs[i]) + first * widths[i], widths[i]);
      if (result.code != KL_OK) return result;
    }
    if (!gated) return kl::ok();
    float* v = kl::data<float>(call->outputs[2]);
    for (int64_t n = first; n < end; ++n)
      for (int64_t k = 0; k < p.kv_heads; ++k) {
        const float gate = gate_of(x + n * p.width, wg + k * kGateColumns);
        gates[n * p.kv_heads + k] = gate;
        const int64_t at = (n * p.kv_heads + k) * p.head_width;
#pragma omp simd
        for (int64_t d = at; d < at + p.head_width; ++d) v[d] += gate * ve[d];
      }
    return kl::ok();
  };
  const int32_t code = for_blocks(p, block);
  return {code, code == KL_OK ? nullptr : "sgemm failed"};
}

// One row: dve, its part of dx (added) and of dwg (added to `share`).
void gate_backward(const Plan& p, const float* dv, const float* x, const float* ve, const float* wg,
                   const float* gates, float* dve, float* dx, float* share) {
  for (int64_t k = 0; k < p.kv_heads; ++k) {
    const float gate = gates[k];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t d = k * p.head_width; d < (k + 1) * p.head_width; ++d) {
      dot += dv[d] * ve[d];
      dve[d] = gate * dv[d];
    }
    const float ds = dot * gate * (1 - gate / 2);
#pragma omp simd
    for (int64_t c = 0; c < kGateColumns; ++c) {
      dx[c] += ds * wg[k * kGateColumns + c];
      share[k * kGateColumns + c] += ds * x[c];
    }
  }
}

kl_result backward(const Plan& p, const kl_call* call) {
  const float* dv = kl::data<const float>(call->inputs[2]);
  const float* x = kl::data<const float>(call->inputs[3]);
  const bool gated = kl::is_present(call->inputs[7]);
  const float* ve = gated ? kl::data<const float>(call->inputs[7]) : nullptr;
  const float* wg = gated ? kl::data<const float>(call->inputs[8]) : nullptr;
  float* dx = kl::data<float>(call->outputs[0]);
  float* dve = gated ? kl::data<float>(call->outputs[4]) : nullptr;
  const float* gates = static_cast<const float*>(call->saved);
  float* shares = static_cast<float*>(call->scratch);
  const int64_t widths[] = {p.q_width(), p.kv_width(), p.kv_width()};
  const int64_t gate_weights = p.kv_heads * kGateColumns;
  if (gated) std::fill(shares, shares + p.threads * padded(p.kv_heads), 0.0f);
  const auto block = [&](int64_t first, int64_t end, int32_t thread) {
    for (int i = 0; i < 3; ++i) {
      const kl_result result = p.sgemm('N', 'N', end - first, p.width, widths[i], 1,
                                       kl::data<const float>(call->inputs[i]) + first * widths[i],
                                       widths[i], kl::data<const float>(call->inputs[4 + i]),
                                       p.width, i > 0, dx + first * p.width, p.width);
      if (result.code != KL_OK) return result;
    }
    for (int64_t n = first; gated && n < end; ++n)
      gate_backward(p, dv + n * p.kv_width(), x + n * p.width, ve + n * p.kv_width(), wg,
                    gates + n * p.kv_heads, dve + n * p.kv_width(), dx + n * p.width,
                    shares + thread * padded(p.kv_heads));
    return kl::ok();
  };
  const int32_t code = for_blocks(p, block);
  if (code != KL_OK) return {code, "sgemm failed"};
  for (int32_t thread = 0; gated && thread < p.threads; ++thread)
    for (int64_t i = 0; i < gate_weights; ++i)
      kl::data<float>(call->outputs[5])[i] += shares[thread * padded(p.kv_heads) + i];
  for (int i = 0; i < 3; ++i) {
    const kl_result result =
        p.sgemm('T', 'N', widths[i], p.width, p.rows, 1, kl::data<const float>(call->inputs[i]),
                widths[i], x, p.width, 1, kl::data<float>(call->outputs[1 + i]), p.width);
    if (result.code != KL_OK) return result;
  }
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  return p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
}

}  // namespace

KL_EXPORT_KERNEL("attention_prelude", accepts, scratch_bytes, saved_bytes, prepare, run);
