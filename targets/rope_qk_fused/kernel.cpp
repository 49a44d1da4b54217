// Rotary embedding and rmsnorm of heads for CPUs: every array is passed once, q before k; the
// second look at a head hits the first cache.
//   forward   read q and k, write q_out and k_out
//   backward  read the gradients, q and k, write dq and dk
// A head of usual length stays in registers once it is turned; any other is turned twice.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 128 * 1024;  // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // outputs beyond the last cache

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t positions, length;  // B*T, T
  int64_t heads[2], half;     // heads of q and of k
  double inverse_depth;
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
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not rope_qk_fused's");
  const int tables = forward ? 2 : 4;
  if (p->input_count != tables + 2 || p->output_count != 2 || p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  const DLTensor &q = p->inputs[0], &k = p->inputs[1];
  if (q.ndim != 4 || k.ndim != 4) return kl::bad_argument("q must be [B,T,H,D], k [B,T,K,D]");
  for (int i = 0; i < tables; ++i)
    if (!has_shape(p->inputs[i], q, (i % 2 == 0 ? q : k).shape[2]))
      return kl::unsupported("q, k and their gradients: packed f32 [B,T,H,D] and [B,T,K,D]");
  for (int i = 0; i < 2; ++i)
    if (!has_shape(p->outputs[i], q, (i % 2 == 0 ? q : k).shape[2]))
      return kl::unsupported("outputs: packed f32 [B,T,H,D] and [B,T,K,D]");
  if (!is_table(p->inputs[tables], q) || !is_table(p->inputs[tables + 1], q))
    return kl::unsupported("cos, sin: packed f32 [T,D/2]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

// 1/rms of every head of q, then of k.
size_t saved_bytes(const kl_problem* p) {
  const int64_t* q = p->inputs[0].shape;
  return static_cast<size_t>(q[0] * q[1] * (q[2] + p->inputs[1].shape[2])) * sizeof(float);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t* q = p->inputs[0].shape;
  const int64_t k_heads = p->inputs[1].shape[2], positions = q[0] * q[1];
  const int64_t worth =
      std::max<int64_t>(1, positions * (q[2] + k_heads) * q[3] / kElementsPerThread);
  kl::store(plan, Plan{p->operation,
                       static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
                       positions,
                       q[1],
                       {q[2], k_heads},
                       q[3] / 2,
                       1 / static_cast<double>(q[3])});
  return kl::ok();
}

inline Lanes load(const float* from, int64_t count) {
  return count == kLanes ? kl::load(from) : kl::load_some(from, count);
}
template <bool streamed>
inline void store(float* to, Lanes v, int64_t count) {
  if constexpr (streamed)
    kl::stream(to, v);  // of whole vectors only
  else
    count == kLanes ? kl::store(to, v) : kl::store_some(to, v, count);
}

// f(i, d, count) for vector i of a half, its first element and length. `kept` is the number of
// vectors where it is known: the loop is unrolled, and f may keep a vector in a register between
// two such loops. 0: any number, the last may be short.
template <int kept, class F>
inline __attribute__((always_inline)) void for_vectors(int64_t half, F f) {
  if constexpr (kept > 0) {
#pragma GCC unroll 8
    for (int i = 0; i < kept; ++i) f(i, i * kLanes, kLanes);
  } else {
    int64_t d = 0;
    for (; d + kLanes <= half; d += kLanes) f(0, d, kLanes);
    if (d < half) f(0, d, half - d);
  }
}

// The angles of one position, and vectors of pairs turned by them, forth and back.
struct Angles {
  const float *cosine, *sine;
  int64_t half;
};
struct Pairs {
  Lanes first, second;
};
inline Pairs turned(const float* x, const Angles& a, int64_t d, int64_t n) {
  const Lanes x1 = load(x + d, n), x2 = load(x + a.half + d, n);
  const Lanes c = load(a.cosine + d, n), s = load(a.sine + d, n);
  return {x1 * c + x2 * s, x2 * c - x1 * s};
}
inline Pairs turned_back(Pairs y, const Angles& a, int64_t d, int64_t n) {
  const Lanes c = load(a.cosine + d, n), s = load(a.sine + d, n);
  return {y.first * c - y.second * s, y.second * c + y.first * s};
}

// Sums over a head that leave the range of float, or vanish in it where eps does not hide that, are
// taken again in double.
constexpr double kLeastSquares = 1e-30;
double wide_squares(const float* x, const Angles& a) {
  double squares = 0;
  for (int64_t d = 0; d < a.half; ++d) {
    const double x1 = x[d], x2 = x[d + a.half], c = a.cosine[d], s = a.sine[d];
    const double y1 = x1 * c + x2 * s, y2 = x2 * c - x1 * s;
    squares += y1 * y1 + y2 * y2;
  }
  return squares;
}
double wide_products(const float* x, const float* dout, const Angles& a) {
  double products = 0;
  for (int64_t d = 0; d < a.half; ++d) {
    const double x1 = x[d], x2 = x[d + a.half], c = a.cosine[d], s = a.sine[d];
    products += dout[d] * (x1 * c + x2 * s) + dout[d + a.half] * (x2 * c - x1 * s);
  }
  return products;
}

// out = y * r. Returns r, which backward needs.
template <int kept, bool streamed>
inline __attribute__((always_inline)) float forward_head(const float* x, float* out,
                                                         const Angles& a, double inverse_depth,
                                                         double eps) {
  Pairs keep[kept > 0 ? kept : 1];
  Lanes sums[2] = {};
  for_vectors<kept>(
      a.half, [&](int i, int64_t d, int64_t n) __attribute__((always_inline)) {
        const Pairs y = turned(x, a, d, n);
        sums[0] += y.first * y.first;
        sums[1] += y.second * y.second;
        if constexpr (kept > 0) keep[i] = y;
      });
  double squares = kl::sum_of(sums[0] + sums[1]);
  if (!(squares <= FLT_MAX && squares * inverse_depth + eps > kLeastSquares * inverse_depth))
    squares = wide_squares(x, a);
  const auto r = static_cast<float>(1.0 / std::sqrt(squares * inverse_depth + eps));
  const Lanes scale = kl::lanes(r);
  for_vectors<kept>(
      a.half, [&](int i, int64_t d, int64_t n) __attribute__((always_inline)) {
        const Pairs y = kept > 0 ? keep[i] : turned(x, a, d, n);
        store<streamed>(out + d, y.first * scale, n);
        store<streamed>(out + a.half + d, y.second * scale, n);
      });
  return r;
}

// dy = (dout - y * slope) * r, slope = mean(dout*y) * r^2.
template <int kept, bool streamed>
inline __attribute__((always_inline)) void backward_head(const float* dout, const float* x, float r,
                                                         float* dx, const Angles& a,
                                                         double inverse_depth) {
  Pairs keep[kept > 0 ? kept : 1];
  Lanes sums[2] = {};
  for_vectors<kept>(
      a.half, [&](int i, int64_t d, int64_t n) __attribute__((always_inline)) {
        const Pairs y = turned(x, a, d, n);
        sums[0] += load(dout + d, n) * y.first;
        sums[1] += load(dout + a.half + d, n) * y.second;
        if constexpr (kept > 0) keep[i] = y;
      });
  double products = kl::sum_of(sums[0] + sums[1]);
  const double factor = double{r} * r * inverse_depth;
  if (!(std::fabs(products) <= FLT_MAX && factor * kLeastSquares < 1))
    products = wide_products(x, dout, a);
  const Lanes scale = kl::lanes(r), slope = kl::lanes(static_cast<float>(products * factor));
  for_vectors<kept>(
      a.half, [&](int i, int64_t d, int64_t n) __attribute__((always_inline)) {
        Pairs y = kept > 0 ? keep[i] : turned(x, a, d, n);
        y.first = load(dout + d, n) - y.first * slope;
        y.second = load(dout + a.half + d, n) - y.second * slope;
        y = turned_back(y, a, d, n);
        store<streamed>(dx + d, y.first * scale, n);
        store<streamed>(dx + a.half + d, y.second * scale, n);
      });
}

// Positions [n, end), all heads of q, then all of k: taking turns at each position was slower.
template <bool back, int kept, bool streamed>
void positions(const Plan& plan, const kl_call* call, int64_t n, int64_t end) {
  constexpr int tables = back ? 4 : 2;
  const double eps = call->scalars[0];
  for (int which = 0; which < 2; ++which) {
    const float* first = kl::data<const float>(call->inputs[which]);
    const float* x = back ? kl::data<const float>(call->inputs[2 + which]) : first;
    float* out = kl::data<float>(call->outputs[which]);
    const int64_t depth = 2 * plan.half, heads = plan.heads[which];
    float* inverse_rms =
        static_cast<float*>(call->saved) + (which == 0 ? 0 : plan.positions * plan.heads[0]);
    for (int64_t position = n; position < end; ++position) {
      const int64_t angle = position % plan.length * plan.half;
      const Angles angles{kl::data<const float>(call->inputs[tables]) + angle,
                          kl::data<const float>(call->inputs[tables + 1]) + angle, plan.half};
      for (int64_t head = position * heads; head < (position + 1) * heads; ++head) {
        const int64_t at = head * depth;
        if constexpr (back)
          backward_head<kept, streamed>(first + at, x + at, inverse_rms[head], out + at, angles,
                                        plan.inverse_depth);
        else
          inverse_rms[head] =
              forward_head<kept, streamed>(x + at, out + at, angles, plan.inverse_depth, eps);
      }
    }
  }
  if constexpr (streamed) kl::stream_fence();
}

template <int kept, bool streamed>
void share(const Plan& plan, const kl_call* call, int32_t part) {
  const int64_t begin = plan.positions * part / plan.threads;
  const int64_t end = plan.positions * (part + 1) / plan.threads;
  plan.operation == KL_FORWARD ? positions<false, kept, streamed>(plan, call, begin, end)
                               : positions<true, kept, streamed>(plan, call, begin, end);
}

// Halves of whole vectors alone are streamed, so those of the lengths known below.
bool worth_streaming(const Plan& plan, const kl_call* call) {
  const int64_t elements = plan.positions * (plan.heads[0] + plan.heads[1]) * 2 * plan.half;
  const auto aligned = [&](int which) {
    return reinterpret_cast<uintptr_t>(kl::data<const float>(call->outputs[which])) %
               kl::kLaneBytes == 0;
  };
  return elements * int64_t{sizeof(float)} >= kStreamBytes && aligned(0) && aligned(1);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool streamed = worth_streaming(p, call);
  const auto share_of_known = [&](int32_t part) {  // heads of 64 and 128 on AVX-512
    if (p.half == 4 * kLanes)
      streamed ? share<4, true>(p, call, part) : share<4, false>(p, call, part);
    else if (p.half == 2 * kLanes)
      streamed ? share<2, true>(p, call, part) : share<2, false>(p, call, part);
    else
      share<0, false>(p, call, part);
  };
  if (p.threads == 1) {  // even a region of one costs its entry and exit
    share_of_known(0);
    return kl::ok();
  }
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
  for (int32_t part = 0; part < p.threads; ++part) share_of_known(part);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("rope_qk_fused", accepts, no_bytes, saved_bytes, prepare, run);
