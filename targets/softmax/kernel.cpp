// Softmax for CPUs. A row is read from memory once and written once: its exponentials stay in the
// first cache, in the output, until their sum is known.
#include <kernel_lab/exponential.hpp>
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <limits>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 32 * 1024;  // fewer are not worth waking a thread for
constexpr float kNone = -std::numeric_limits<float>::infinity();

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

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t* shape = p->inputs[0].shape;
  const int64_t rows = shape[0] * shape[1];
  const int64_t worth = std::max<int64_t>(1, rows * shape[2] / kElementsPerThread);
  kl::store(plan,
            Plan{p->operation, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
                 rows, shape[1], shape[2]});
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
inline void store(float* to, Lanes v, int64_t count) {
  count == kLanes ? kl::store(to, v) : kl::store_some(to, v, count);
}

// The largest lane, halves held against each other until one is left.
float largest_of(Lanes v) {
  float a[kLanes];
  kl::store(a, v);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) a[l] = std::max(a[l], a[l + half]);
  return a[0];
}

template <bool masked>
void forward_row(const float* z, const float* mask, float* p, int64_t K) {
  Lanes tops = kl::lanes(kNone);
  for (int64_t k = 0; k + kLanes <= K; k += kLanes) {
    Lanes x = kl::load(z + k);
    if constexpr (masked) x += kl::load(mask + k);
    tops = kl::at_least(x, tops);
  }
  float top = largest_of(tops);
  for (int64_t k = K / kLanes * kLanes; k < K; ++k)
    top = std::max(top, masked ? z[k] + mask[k] : z[k]);
  Lanes sums{};
  float rest = 0;
  each_vector(
      K, [&](int64_t k, int64_t count) __attribute__((always_inline)) {
        Lanes x = load(z + k, count);
        if constexpr (masked) x += load(mask + k, count);
        const Lanes e = kl::exp_of_negative(x - kl::lanes(top));
        store(p + k, e, count);
        if (count == kLanes)
          sums += e;
        else
          for (int64_t l = 0; l < count; ++l) rest += e[l];
      });
  const Lanes inverse = kl::lanes(1 / (kl::sum_of(sums) + rest));
  each_vector(
      K, [&](int64_t k, int64_t count)
             __attribute__((always_inline)) { store(p + k, load(p + k, count) * inverse, count); });
}

void backward_row(const float* dp, const float* p, float* dz, int64_t K) {
  Lanes sums{};
  each_vector(
      K, [&](int64_t k, int64_t count)
             __attribute__((always_inline)) { sums += load(dp + k, count) * load(p + k, count); });
  const Lanes sum = kl::lanes(kl::sum_of(sums));
  each_vector(
      K, [&](int64_t k, int64_t count) __attribute__((always_inline)) {
        store(dz + k, load(p + k, count) * (load(dp + k, count) - sum), count);
      });
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool forward = p.operation == KL_FORWARD,
             masked = forward && kl::is_present(call->inputs[1]);
  const float* first = kl::data<const float>(call->inputs[0]);
  const float* second = forward && !masked ? nullptr : kl::data<const float>(call->inputs[1]);
  float* to = kl::data<float>(call->outputs[0]);
  const auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t at = n * p.K;
      if (!forward)
        backward_row(first + at, second + at, to + at, p.K);
      else if (masked)
        forward_row<true>(first + at, second + n % p.mask_rows * p.K, to + at, p.K);
      else
        forward_row<false>(first + at, nullptr, to + at, p.K);
    }
  };
  if (p.threads == 1) {
    rows(0, p.rows);
    return kl::ok();
  }
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
  for (int32_t slot = 0; slot < p.threads; ++slot)
    rows(p.rows * slot / p.threads, p.rows * (slot + 1) / p.threads);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("softmax", accepts, no_bytes, no_bytes, prepare, run);
