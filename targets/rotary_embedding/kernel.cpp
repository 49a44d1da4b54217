// Rotary embedding for CPUs: one pass over q and k, position after position, so that a row of the
// tables serves all heads of both. Backward is the same turn with the sine's sign changed.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 128 * 1024;   // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // outputs beyond the last cache

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t positions, length;  // B*T, T
  int64_t q_heads, k_heads, half;
};

bool has_shape(const DLTensor& t, const DLTensor& like, int64_t heads) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 4 && t.shape[0] == like.shape[0] &&
         t.shape[1] == like.shape[1] && t.shape[2] == heads && t.shape[3] == like.shape[3];
}
bool is_table(const DLTensor& t, const DLTensor& q) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == q.shape[1] &&
         2 * t.shape[1] == q.shape[3];
}

kl_result accepts(const kl_problem* p) {
  if (p->operation != KL_FORWARD && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not rotary_embedding's");
  if (p->input_count != 4 || p->output_count != 2)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor &q = p->inputs[0], &k = p->inputs[1];
  if (q.ndim != 4 || k.ndim != 4) return kl::bad_argument("q must be [B,T,H,D], k [B,T,K,D]");
  for (const DLTensor* tensors : {p->inputs, static_cast<const DLTensor*>(p->outputs)})
    if (!has_shape(tensors[0], q, q.shape[2]) || !has_shape(tensors[1], q, k.shape[2]))
      return kl::unsupported("q, k and their results: packed f32 [B,T,H,D] and [B,T,K,D]");
  if (!is_table(p->inputs[2], q) || !is_table(p->inputs[3], q))
    return kl::unsupported("cos, sin: packed f32 [T,D/2]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t* q = p->inputs[0].shape;
  const int64_t k_heads = p->inputs[1].shape[2], positions = q[0] * q[1];
  const int64_t elements = positions * (q[2] + k_heads) * q[3];
  const int64_t worth = std::max<int64_t>(1, elements / kElementsPerThread);
  kl::store(plan,
            Plan{p->operation, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
                 positions, q[1], q[2], k_heads, q[3] / 2});
  return kl::ok();
}

inline Lanes load(const float* from, int64_t count) {
  return count == kLanes ? kl::load(from) : kl::load_some(from, count);
}
template <bool streamed>
inline void store(float* to, Lanes v, int64_t count) {
  if (count != kLanes)
    kl::store_some(to, v, count);
  else if constexpr (streamed)
    kl::stream(to, v);
  else
    kl::store(to, v);
}

// All heads of one position.
template <bool back, bool streamed>
void turn(const float* x, float* y, const float* cosine, const float* sine, int64_t heads,
          int64_t half) {
  for (int64_t h = 0; h < heads; ++h, x += 2 * half, y += 2 * half) {
    const auto step = [=](int64_t d, int64_t n) __attribute__((always_inline)) {
      const Lanes x1 = load(x + d, n), x2 = load(x + half + d, n);
      const Lanes c = load(cosine + d, n);
      const Lanes s = back ? -load(sine + d, n) : load(sine + d, n);
      store<streamed>(y + d, x1 * c + x2 * s, n);
      store<streamed>(y + half + d, x2 * c - x1 * s, n);
    };
    int64_t d = 0;
    for (; d + kLanes <= half; d += kLanes) step(d, kLanes);
    if (d < half) step(d, half - d);
  }
}

template <bool back, bool streamed>
void positions(const Plan& plan, const kl_call* call, int64_t n, int64_t end) {
  const int64_t q_row = plan.q_heads * 2 * plan.half, k_row = plan.k_heads * 2 * plan.half;
  const float* q = kl::data<const float>(call->inputs[0]);
  const float* k = kl::data<const float>(call->inputs[1]);
  float* q_out = kl::data<float>(call->outputs[0]);
  float* k_out = kl::data<float>(call->outputs[1]);
  for (; n < end; ++n) {
    const float* cosine = kl::data<const float>(call->inputs[2]) + n % plan.length * plan.half;
    const float* sine = kl::data<const float>(call->inputs[3]) + n % plan.length * plan.half;
    turn<back, streamed>(q + n * q_row, q_out + n * q_row, cosine, sine, plan.q_heads, plan.half);
    turn<back, streamed>(k + n * k_row, k_out + n * k_row, cosine, sine, plan.k_heads, plan.half);
  }
  if constexpr (streamed) kl::stream_fence();
}

template <bool back>
void all(const Plan& plan, const kl_call* call) {
  const auto aligned = [&](int i) {
    return reinterpret_cast<uintptr_t>(kl::data<float>(call->outputs[i])) % kl::kLaneBytes == 0;
  };
  const int64_t bytes = plan.positions * (plan.q_heads + plan.k_heads) * 2 * plan.half * 4;
  const bool streamed =
      bytes >= kStreamBytes && plan.half % kLanes == 0 && aligned(0) && aligned(1);
  const auto share = [&](int32_t part) {
    const int64_t begin = plan.positions * part / plan.threads;
    const int64_t end = plan.positions * (part + 1) / plan.threads;
    streamed ? positions<back, true>(plan, call, begin, end)
             : positions<back, false>(plan, call, begin, end);
  };
  if (plan.threads == 1) return share(0);  // even a region of one costs its entry and exit
#pragma omp parallel for schedule(static, 1) num_threads(plan.threads)
  for (int32_t part = 0; part < plan.threads; ++part) share(part);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  p.operation == KL_FORWARD ? all<false>(p, call) : all<true>(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("rotary_embedding", accepts, no_bytes, no_bytes, prepare, run);
