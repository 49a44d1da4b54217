// rmsnorm of the heads of q and k for CPUs: every array is passed once, the second look at a head
// hits the first cache. A thread takes a run of q's heads and one of k's.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 128 * 1024;   // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // outputs beyond the last cache

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t heads[2], depth;  // all heads of q and of k
  double inverse_depth;
};

bool has_shape(const DLTensor& t, const DLTensor& like, int64_t heads) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 4 && t.shape[0] == like.shape[0] &&
         t.shape[1] == like.shape[1] && t.shape[2] == heads && t.shape[3] == like.shape[3];
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not qk_rmsnorm's");
  if (p->input_count != (forward ? 2 : 4) || p->output_count != 2 || p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  const DLTensor &q = p->inputs[0], &k = p->inputs[1];
  if (q.ndim != 4 || k.ndim != 4 || q.shape[3] < 1)
    return kl::bad_argument("q must be [B,T,H,D], k [B,T,K,D] with D >= 1");
  for (int i = 0; i < p->input_count; ++i)
    if (!has_shape(p->inputs[i], q, (i % 2 == 0 ? q : k).shape[2]))
      return kl::unsupported("q, k and their gradients: packed f32 [B,T,H,D] and [B,T,K,D]");
  for (int i = 0; i < p->output_count; ++i)
    if (!has_shape(p->outputs[i], q, (i % 2 == 0 ? q : k).shape[2]))
      return kl::unsupported("outputs: packed f32 [B,T,H,D] and [B,T,K,D]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }  // 1/rms costs less to compute than to read

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t* q = p->inputs[0].shape;
  const int64_t positions = q[0] * q[1], k_heads = p->inputs[1].shape[2];
  const int64_t worth =
      std::max<int64_t>(1, positions * (q[2] + k_heads) * q[3] / kElementsPerThread);
  kl::store(plan, Plan{p->operation,
                       static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
                       {positions * q[2], positions * k_heads},
                       q[3],
                       1 / static_cast<double>(q[3])});
  return kl::ok();
}

// f(d, count) for every vector of a head; the last may be short.
template <class F>
inline __attribute__((always_inline)) void for_vectors(int64_t depth, F f) {
  int64_t d = 0;
  for (; d + kLanes <= depth; d += kLanes) f(d, kLanes);
  if (d < depth) f(d, depth - d);
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

// Squares that overflow, or vanish where eps does not hide it, are summed again in double.
bool in_range(float squares, double eps, double depth) {
  return squares <= FLT_MAX && squares + eps * depth > 1e-30;
}

template <bool streamed>
void forward_head(const float* x, float* y, int64_t depth, double inverse_depth, double eps) {
  Lanes sums{};
  for_vectors(
      depth, [&](int64_t d, int64_t n) __attribute__((always_inline)) {
        const Lanes v = load(x + d, n);
        sums += v * v;
      });
  double squares = kl::sum_of(sums);
  if (!in_range(static_cast<float>(squares), eps, static_cast<double>(depth))) {
    squares = 0;
    for (int64_t d = 0; d < depth; ++d) squares += double{x[d]} * x[d];
  }
  const double r = 1.0 / std::sqrt(squares * inverse_depth + eps);
  const Lanes scale = kl::lanes(static_cast<float>(r));
  for_vectors(
      depth, [&](int64_t d, int64_t n) __attribute__((always_inline)) {
        store<streamed>(y + d, load(x + d, n) * scale, n);
      });
}

template <bool streamed>
void backward_head(const float* dy, const float* x, float* dx, int64_t depth, double inverse_depth,
                   double eps) {
  Lanes square_sums{}, product_sums{};
  for_vectors(
      depth, [&](int64_t d, int64_t n) __attribute__((always_inline)) {
        const Lanes v = load(x + d, n);
        square_sums += v * v;
        product_sums += load(dy + d, n) * v;
      });
  double squares = kl::sum_of(square_sums), dot = kl::sum_of(product_sums);
  if (!in_range(static_cast<float>(squares), eps, static_cast<double>(depth)) ||
      !(std::fabs(dot) <= FLT_MAX)) {
    squares = dot = 0;
    for (int64_t d = 0; d < depth; ++d) {
      squares += double{x[d]} * x[d];
      dot += double{dy[d]} * x[d];
    }
  }
  const double r = 1.0 / std::sqrt(squares * inverse_depth + eps);
  const Lanes scale = kl::lanes(static_cast<float>(r));
  const Lanes mean = kl::lanes(static_cast<float>(dot * r * inverse_depth));
  for_vectors(
      depth, [&](int64_t d, int64_t n) __attribute__((always_inline)) {
        store<streamed>(dx + d, scale * (load(dy + d, n) - load(x + d, n) * scale * mean), n);
      });
}

template <bool streamed>
void heads(const Plan& plan, const kl_call* call, int which, int64_t h, int64_t end) {
  const bool is_forward = plan.operation == KL_FORWARD;
  const float* first = kl::data<const float>(call->inputs[which]);
  const float* x = is_forward ? first : kl::data<const float>(call->inputs[2 + which]);
  float* out = kl::data<float>(call->outputs[which]);
  for (; h < end; ++h) {
    const int64_t at = h * plan.depth;
    if (is_forward)
      forward_head<streamed>(x + at, out + at, plan.depth, plan.inverse_depth, call->scalars[0]);
    else
      backward_head<streamed>(first + at, x + at, out + at, plan.depth, plan.inverse_depth,
                              call->scalars[0]);
  }
  if constexpr (streamed) kl::stream_fence();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto aligned = [&](int i) {
    return reinterpret_cast<uintptr_t>(kl::data<float>(call->outputs[i])) % kl::kLaneBytes == 0;
  };
  const bool streamed =
      (p.heads[0] + p.heads[1]) * p.depth * int64_t{sizeof(float)} >= kStreamBytes &&
      p.depth % kLanes == 0 && aligned(0) && aligned(1);
  const auto share = [&](int32_t part) {
    for (int which = 0; which < 2; ++which) {
      const int64_t begin = p.heads[which] * part / p.threads;
      const int64_t end = p.heads[which] * (part + 1) / p.threads;
      streamed ? heads<true>(p, call, which, begin, end) : heads<false>(p, call, which, begin, end);
    }
  };
  if (p.threads == 1) {  // even a region of one costs its entry and exit
    share(0);
    return kl::ok();
  }
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
  for (int32_t part = 0; part < p.threads; ++part) share(part);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("qk_rmsnorm", accepts, no_bytes, no_bytes, prepare, run);
