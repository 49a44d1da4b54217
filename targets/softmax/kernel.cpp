// Softmax for CPUs. A row is read from memory once and written once: its exponentials stay in the
// cache until their sum is known, in the output, or in scratch where the output is streamed.
#include <kernel_lab/exponential.hpp>
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <limits>
#include <type_traits>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 32 * 1024;  // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;   // an output beyond the last cache
constexpr int64_t kAhead = 2, kBehind = 1;            // rows between the steps of forward
constexpr int64_t kRing = kAhead + kBehind + 1;       // rows that forward works on
constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();  // of a row of kNone alone

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, mask_rows, K;
};

bool has_shape(const DLTensor& t, const DLTensor& like) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 3 && t.shape[0] == like.shape[0] &&
         t.shape[1] == like.shape[1] && t.shape[2] == like.shape[2];
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD) return kl::unsupported("operation is not softmax's");
  if (p->input_count != 2 || p->output_count != 1)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& first = p->inputs[0];
  const DLTensor& second = p->inputs[1];
  if (first.ndim != 3 || first.shape[2] < 1)
    return kl::bad_argument("z, dp must be [N,T,K] with K >= 1");
  if (!has_shape(first, first) || !has_shape(p->outputs[0], first))
    return kl::unsupported("z, dp, p, dz: packed f32 [N,T,K]");
  if (!forward && !has_shape(second, first)) return kl::unsupported("p: packed f32 [N,T,K]");
  if (forward && kl::is_present(second) &&
      (!kl::is_f32(second) || !kl::is_contiguous(second) || second.ndim != 2 ||
       second.shape[0] != first.shape[1] || second.shape[1] != first.shape[2]))
    return kl::unsupported("mask: packed f32 [T,K]");
  return kl::ok();
}

Plan plan_of(const kl_problem* p) {
  const int64_t* shape = p->inputs[0].shape;
  const int64_t rows = shape[0] * shape[1];
  const int64_t worth = std::max<int64_t>(1, rows * shape[2] / kElementsPerThread);
  return {p->operation, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), rows,
          shape[1], shape[2]};
}

bool is_large(const Plan& plan) {
  return plan.rows * plan.K * int64_t{sizeof(float)} >= kStreamBytes && plan.K % kLanes == 0;
}
// A thread's ring of rows of exponentials, and a page between two threads'.
int64_t ring_elements(const Plan& plan) { return kRing * plan.K + 1024; }

size_t scratch_bytes(const kl_problem* p) {
  const Plan plan = plan_of(p);
  if (plan.operation != KL_FORWARD || !is_large(plan)) return 0;
  return static_cast<size_t>(plan.threads * ring_elements(plan)) * sizeof(float);
}
size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p));
  return kl::ok();
}

// Every vector of a row: whole ones with `count` kLanes, the rest with fewer.
template <class Visit>
inline void each_vector(int64_t K, Visit visit) {
  int64_t k = 0;
  for (; k + kLanes <= K; k += kLanes) visit(k, int64_t{kLanes});
  if (k < K) visit(k, K - k);
}
inline Lanes load(const float* from, int64_t count) {
  return count == kLanes ? kl::load(from) : kl::load_some(from, count);
}
template <bool streamed = false>
inline void store(float* to, Lanes v, int64_t count) {
  if constexpr (streamed)
    kl::stream(to, v);  // of whole vectors only
  else
    count == kLanes ? kl::store(to, v) : kl::store_some(to, v, count);
}

// Forward works on three rows at a time, vector by vector: it looks for the largest score of one,
// takes the exponentials of an earlier and divides a yet earlier one. What a row waits for
// between its steps, two reductions across a vector and a division, overlaps with the others'.
struct Row {
  const float *z, *mask;
  float *power, *p;  // exponentials, result: the same memory unless the result is streamed
  Lanes top;          // the largest, in every lane
  Lanes inverse;      // 1 / sum of exponentials
};

// A null pointer: there is no such row.
template <bool masked, bool streamed>
inline void forward_step(Row* look, Row* power, Row* divide, int64_t K) {
  const auto score = [](const Row& row, int64_t k, int64_t count) __attribute__((always_inline)) {
    Lanes x =
        count == kLanes ? kl::load(row.z + k) : kl::load_some(row.z + k, count, kl::lanes(kNone));
    if constexpr (masked) x += load(row.mask + k, count);
    return x;
  };
  const auto steps = [&](auto looks, auto powers, auto divides) __attribute__((always_inline)) {
    Lanes top = kl::lanes(kLowest), sum{};
    const Row next = looks ? *look : Row{}, now = powers ? *power : Row{},
              last = divides ? *divide : Row{};
    each_vector(
        K, [&](int64_t k, int64_t count) __attribute__((always_inline)) {
          if constexpr (powers) {
            const Lanes e = kl::exp_of_negative(score(now, k, count) - now.top);
            store(now.power + k, e, count);
            sum += e;
          }
          if constexpr (looks) {
            if constexpr (streamed)  // the scores come from memory: asked for three rows ahead
              __builtin_prefetch(next.z + 3 * K + k, 0, 2);
            top = kl::at_least(score(next, k, count), top);
          }
          if constexpr (divides)
            store<streamed>(last.p + k, load(last.power + k, count) * last.inverse, count);
        });
    if constexpr (looks) look->top = kl::lanes(kl::largest_of(top));
    if constexpr (powers) power->inverse = kl::lanes(1 / kl::sum_of(sum));
  };
  constexpr std::true_type yes;
  constexpr std::false_type no;
  if (look && power && divide) return steps(yes, yes, yes);
  if (look) steps(yes, no, no);
  if (power) steps(no, yes, no);
  if (divide) steps(no, no, yes);
}

// powers: kRing rows of scratch where the result is streamed.
template <bool streamed>
void forward_rows(const Plan& plan, const float* z, const float* mask, float* p, float* powers,
                  int64_t begin, int64_t end) {
  Row ring[kRing] = {};
  const auto row = [&](int64_t n) { return n >= begin && n < end ? &ring[n % kRing] : nullptr; };
  for (int64_t n = begin; n < end + kAhead + kBehind; ++n) {
    const int64_t at = n * plan.K, mask_at = n % plan.mask_rows * plan.K;
    if (n < end)
      ring[n % kRing] = Row{z + at,
                            mask ? mask + mask_at : nullptr,
                            streamed ? powers + n % kRing * plan.K : p + at,
                            p + at,
                            Lanes{},
                            Lanes{}};
    Row *look = row(n), *power = row(n - kAhead), *divide = row(n - kAhead - kBehind);
    mask ? forward_step<true, streamed>(look, power, divide, plan.K)
         : forward_step<false, streamed>(look, power, divide, plan.K);
  }
}

template <bool streamed>
void backward_row(const float* dp, const float* p, float* dz, int64_t K) {
  Lanes sums{};
  each_vector(
      K, [&](int64_t k, int64_t count)
             __attribute__((always_inline)) { sums += load(dp + k, count) * load(p + k, count); });
  const Lanes sum = kl::lanes(kl::sum_of(sums));
  each_vector(
      K, [&](int64_t k, int64_t count) __attribute__((always_inline)) {
        store<streamed>(dz + k, load(p + k, count) * (load(dp + k, count) - sum), count);
      });
}

template <bool streamed>
void share(const Plan& p, const kl_call* call, int32_t slot) {
  const bool forward = p.operation == KL_FORWARD,
             masked = forward && kl::is_present(call->inputs[1]);
  const float* first = kl::data<const float>(call->inputs[0]);
  const float* second = forward && !masked ? nullptr : kl::data<const float>(call->inputs[1]);
  float* to = kl::data<float>(call->outputs[0]);
  const int64_t begin = p.rows * slot / p.threads, end = p.rows * (slot + 1) / p.threads;
  if (forward)
    forward_rows<streamed>(p, first, second, to,
                           streamed ? static_cast<float*>(call->scratch) + slot * ring_elements(p)
                                    : nullptr,
                           begin, end);
  else
    for (int64_t n = begin; n < end; ++n)
      backward_row<streamed>(first + n * p.K, second + n * p.K, to + n * p.K, p.K);
  if constexpr (streamed) kl::stream_fence();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool aligned =
      reinterpret_cast<uintptr_t>(kl::data<const float>(call->outputs[0])) % kl::kLaneBytes == 0;
  const auto shares = is_large(p) && aligned ? share<true> : share<false>;
  if (p.threads == 1) {
    shares(p, call, 0);
    return kl::ok();
  }
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
  for (int32_t slot = 0; slot < p.threads; ++slot) shares(p, call, slot);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("softmax", accepts, scratch_bytes, no_bytes, prepare, run);
