// Residual add and rmsnorm for CPUs: every array is passed once, the second look at a row hits the
// first cache.
//   forward   read residual and update, write sum and y
//   backward  read dsum, dy and sum, write dresidual
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 128 * 1024;   // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, columns;
};

bool is_like(const DLTensor& t, const DLTensor& first) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == first.shape[0] &&
         t.shape[1] == first.shape[1];
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not residual_rmsnorm's");
  if (p->input_count != (forward ? 2 : 3) || p->output_count != (forward ? 2 : 1) ||
      p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  const DLTensor& first = p->inputs[0];
  if (first.ndim != 2 || first.shape[1] < 1)
    return kl::bad_argument("residual must be [N,C] with C >= 1");
  for (int i = 0; i < p->input_count; ++i)
    if (!is_like(p->inputs[i], first)) return kl::unsupported("inputs: packed f32 [N,C]");
  for (int i = 0; i < p->output_count; ++i)
    if (!is_like(p->outputs[i], first)) return kl::unsupported("outputs: packed f32 [N,C]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }  // 1/rms costs less to compute than to read

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t rows = p->inputs[0].shape[0], columns = p->inputs[0].shape[1];
  const int64_t worth = std::max<int64_t>(1, rows * columns / kElementsPerThread);
  kl::store(plan,
            Plan{p->operation, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
                 rows, columns});
  return kl::ok();
}

// f(c, count) for every vector of a row; the last may be short.
template <class F>
inline __attribute__((always_inline)) void for_vectors(int64_t columns, F f) {
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) f(c, kLanes);
  if (c < columns) f(c, columns - c);
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
bool in_range(float squares, double eps, double columns) {
  return squares <= FLT_MAX && squares + eps * columns > 1e-30;
}

// `sum` is read again at once, so it takes the caches even where y goes past them.
template <bool streamed>
void forward_row(const float* residual, const float* update, float* sum, float* y, int64_t columns,
                 double eps) {
  Lanes squares{};
  for_vectors(
      columns, [&](int64_t c, int64_t n) __attribute__((always_inline)) {
        const Lanes s = load(residual + c, n) + load(update + c, n);
        store<false>(sum + c, s, n);
        squares += s * s;
      });
  double total = kl::sum_of(squares);
  if (!in_range(static_cast<float>(total), eps, static_cast<double>(columns))) {
    total = 0;
    for (int64_t c = 0; c < columns; ++c) total += double{sum[c]} * sum[c];
  }
  const double r = 1.0 / std::sqrt(total * (1 / static_cast<double>(columns)) + eps);
  const Lanes scale = kl::lanes(static_cast<float>(r));
  for_vectors(
      columns, [&](int64_t c, int64_t n) __attribute__((always_inline)) {
        store<streamed>(y + c, load(sum + c, n) * scale, n);
      });
}

template <bool streamed>
void backward_row(const float* dsum, const float* dy, const float* sum, float* dresidual,
                  int64_t columns, double eps) {
  Lanes squares{}, products{};
  for_vectors(
      columns, [&](int64_t c, int64_t n) __attribute__((always_inline)) {
        const Lanes s = load(sum + c, n);
        squares += s * s;
        products += load(dy + c, n) * s;
      });
  double total = kl::sum_of(squares), dot = kl::sum_of(products);
  if (!in_range(static_cast<float>(total), eps, static_cast<double>(columns)) ||
      !(std::fabs(dot) <= FLT_MAX)) {
    total = dot = 0;
    for (int64_t c = 0; c < columns; ++c) {
      total += double{sum[c]} * sum[c];
      dot += double{dy[c]} * sum[c];
    }
  }
  const double inverse_columns = 1 / static_cast<double>(columns);
  const double r = 1.0 / std::sqrt(total * inverse_columns + eps);
  const Lanes scale = kl::lanes(static_cast<float>(r));
  const Lanes mean = kl::lanes(static_cast<float>(dot * r * inverse_columns));
  for_vectors(
      columns, [&](int64_t c, int64_t n) __attribute__((always_inline)) {
        const Lanes normed = load(sum + c, n) * scale;
        store<streamed>(dresidual + c,
                        load(dsum + c, n) + scale * (load(dy + c, n) - normed * mean), n);
      });
}

template <bool streamed>
void run_rows(const Plan& plan, const kl_call* call, int64_t n, int64_t end) {
  const auto in = [&](int i) { return kl::data<const float>(call->inputs[i]) + n * plan.columns; };
  const auto out = [&](int i) { return kl::data<float>(call->outputs[i]) + n * plan.columns; };
  for (; n < end; ++n) {
    if (plan.operation == KL_FORWARD)
      forward_row<streamed>(in(0), in(1), out(0), out(1), plan.columns, call->scalars[0]);
    else
      backward_row<streamed>(in(0), in(1), in(2), out(0), plan.columns, call->scalars[0]);
  }
  if constexpr (streamed) kl::stream_fence();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const DLTensor& last = call->outputs[p.operation == KL_FORWARD ? 1 : 0];
  const bool streamed = p.rows * p.columns * int64_t{sizeof(float)} >= kStreamBytes &&
                        p.columns % kLanes == 0 &&
                        reinterpret_cast<uintptr_t>(kl::data<float>(last)) % kl::kLaneBytes == 0;
  const auto share = [&](int32_t part) {
    const int64_t begin = p.rows * part / p.threads, end = p.rows * (part + 1) / p.threads;
    streamed ? run_rows<true>(p, call, begin, end) : run_rows<false>(p, call, begin, end);
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

KL_EXPORT_KERNEL("residual_rmsnorm", accepts, no_bytes, no_bytes, prepare, run);
