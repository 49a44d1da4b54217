// rmsnorm for CPUs. A row is read from memory once: the second pass over it hits the first cache.
//   forward   read x, write y
//   backward  read dy and x, write dx; dw is summed over four rows in registers, then per slot in
//             scratch, then over slots in order: the same bits for the same number of threads.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 128 * 1024;  // fewer are not worth waking a thread for
constexpr int64_t kRowsPerBlock = 4;
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t operation;
  int32_t slots;  // shares of the rows; one thread each
  int64_t rows, columns;
};

bool is_packed_f32(const DLTensor& t) { return kl::is_f32(t) && kl::is_contiguous(t); }
bool is_matrix(const DLTensor& t, int64_t rows, int64_t columns) {
  return is_packed_f32(t) && t.ndim == 2 && t.shape[0] == rows && t.shape[1] == columns;
}
bool is_vector_or_absent(const DLTensor& t, int64_t columns) {
  return !kl::is_present(t) || (is_packed_f32(t) && t.ndim == 1 && t.shape[0] == columns);
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD) return kl::unsupported("operation is not rmsnorm's");
  if (p->input_count != (forward ? 2 : 3) || p->output_count != (forward ? 1 : 2) ||
      p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  const DLTensor& first = p->inputs[0];
  if (first.ndim != 2 || first.shape[1] < 1) return kl::bad_argument("x must be [N,C] with C >= 1");
  const int64_t rows = first.shape[0], columns = first.shape[1];
  for (int i = 0; i < (forward ? 1 : 2); ++i)
    if (!is_matrix(p->inputs[i], rows, columns)) return kl::unsupported("x, dy: packed f32 [N,C]");
  if (!is_matrix(p->outputs[0], rows, columns)) return kl::unsupported("y, dx: packed f32 [N,C]");
  if (!is_vector_or_absent(p->inputs[forward ? 1 : 2], columns))
    return kl::unsupported("w: packed f32 [C]");
  if (!forward && !is_vector_or_absent(p->outputs[1], columns))
    return kl::unsupported("dw: packed f32 [C]");
  return kl::ok();
}

int32_t slots_of(const kl_problem* p) {
  const int64_t elements = p->inputs[0].shape[0] * p->inputs[0].shape[1];
  const int64_t worth = std::max<int64_t>(1, elements / kElementsPerThread);
  return static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth));
}

// A slot's share of dw: whole vectors and a page; threads with shares side by side are slower.
int64_t padded(int64_t columns) { return (columns + 15) / 16 * 16 + 1024; }

size_t scratch_bytes(const kl_problem* p) {
  if (p->operation != KL_BACKWARD || !kl::is_present(p->outputs[1])) return 0;
  return static_cast<size_t>(slots_of(p) * padded(p->inputs[0].shape[1])) * sizeof(float);
}

size_t saved_bytes(const kl_problem*) { return 0; }  // 1/rms costs less to compute than to read

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, Plan{p->operation, slots_of(p), p->inputs[0].shape[0], p->inputs[0].shape[1]});
  return kl::ok();
}

inline Lanes load(const float* from, int64_t count) {
  return count == kLanes ? kl::load(from) : kl::load_some(from, count);
}

// Squares that overflow, or vanish where eps does not hide it, are summed again in double.
bool in_range(float squares, double eps, double columns) {
  return squares <= FLT_MAX && squares + eps * columns > 1e-30;
}

float inverse_rms(const float* x, int64_t columns, double eps) {
  const auto count = static_cast<double>(columns);
  Lanes sums[4] = {};  // independent chains: one alone waits for each addition
  int64_t c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
    const Lanes v0 = kl::load(x + c), v1 = kl::load(x + c + kLanes);
    const Lanes v2 = kl::load(x + c + 2 * kLanes), v3 = kl::load(x + c + 3 * kLanes);
    sums[0] += v0 * v0;
    sums[1] += v1 * v1;
    sums[2] += v2 * v2;
    sums[3] += v3 * v3;
  }
  for (; c < columns; c += kLanes) {
    const Lanes v = load(x + c, std::min<int64_t>(kLanes, columns - c));
    sums[0] += v * v;
  }
  const float squares = kl::sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
  double sum = squares;
  if (!in_range(squares, eps, count)) {
    sum = 0;
    for (c = 0; c < columns; ++c) sum += double{x[c]} * x[c];
  }
  return static_cast<float>(1.0 / std::sqrt(sum * (1 / count) + eps));
}

template <bool weighted, bool streamed>
void forward_row(const float* x, const float* w, float* y, int64_t columns, double eps) {
  const Lanes r = kl::lanes(inverse_rms(x, columns, eps));
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    Lanes v = kl::load(x + c) * r;
    if constexpr (weighted) v *= kl::load(w + c);
    if constexpr (streamed)
      kl::stream(y + c, v);
    else
      kl::store(y + c, v);
  }
  if (c == columns) return;
  Lanes v = kl::load_some(x + c, columns - c) * r;
  if constexpr (weighted) v *= kl::load_some(w + c, columns - c);
  kl::store_some(y + c, v, columns - c);
}

template <bool weighted, bool streamed>
void forward(const Plan& plan, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w = weighted ? kl::data<const float>(call->inputs[1]) : nullptr;
  float* y = kl::data<float>(call->outputs[0]);
  const double eps = call->scalars[0];
  const auto rows = [&](int64_t n, int64_t end) {
    for (; n < end; ++n)
      forward_row<weighted, streamed>(x + n * plan.columns, w, y + n * plan.columns, plan.columns,
                                      eps);
    if constexpr (streamed) kl::stream_fence();
  };
  if (plan.slots == 1) return rows(0, plan.rows);  // even a region of one costs its entry and exit
#pragma omp parallel for schedule(static, 1) num_threads(plan.slots)
  for (int32_t slot = 0; slot < plan.slots; ++slot)
    rows(plan.rows * slot / plan.slots, plan.rows * (slot + 1) / plan.slots);
}

// What backward needs to know of a row before it can write it.
struct RowScale {
  float inverse_rms;
  float mean;  // of w * dy * x * inverse_rms
};

template <bool weighted>
RowScale scale_of(const float* dy, const float* x, const float* w, int64_t columns, double eps) {
  const auto count = static_cast<double>(columns);
  Lanes squares_sum[2] = {}, product_sum[2] = {};
  const auto add = [&](int chain, int64_t c, int64_t n) __attribute__((always_inline)) {
    const Lanes v = load(x + c, n);
    Lanes g = load(dy + c, n);
    if constexpr (weighted) g *= load(w + c, n);
    squares_sum[chain] += v * v;
    product_sum[chain] += g * v;
  };
  int64_t c = 0;
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) {
    add(0, c, kLanes);
    add(1, c + kLanes, kLanes);
  }
  for (; c < columns; c += kLanes) add(0, c, std::min<int64_t>(kLanes, columns - c));
  const float squares = kl::sum_of(squares_sum[0] + squares_sum[1]);
  const float product = kl::sum_of(product_sum[0] + product_sum[1]);
  double sum = squares, dot = product;
  if (!in_range(squares, eps, count) || !(std::fabs(product) <= FLT_MAX)) {
    sum = dot = 0;
    for (c = 0; c < columns; ++c) {
      sum += double{x[c]} * x[c];
      dot += double{dy[c]} * (weighted ? w[c] : 1.0f) * x[c];
    }
  }
  const double r = 1.0 / std::sqrt(sum * (1 / count) + eps);
  return {static_cast<float>(r), static_cast<float>(dot * r * (1 / count))};
}

// Rows [n, n + rows): dx, and their part of dw added to `share` (NULL: not wanted).
template <int rows, bool weighted>
void backward_rows(const float* dy, const float* x, const float* w, float* dx, float* share,
                   int64_t columns, double eps) {
  Lanes r[rows], mean[rows];
  for (int i = 0; i < rows; ++i) {
    const RowScale s = scale_of<weighted>(dy + i * columns, x + i * columns, w, columns, eps);
    r[i] = kl::lanes(s.inverse_rms);
    mean[i] = kl::lanes(s.mean);
  }
  const auto step = [&](int64_t c, int64_t n) __attribute__((always_inline)) {
    Lanes weight{}, sum{};
    if constexpr (weighted) weight = load(w + c, n);
    for (int i = 0; i < rows; ++i) {
      const Lanes g = load(dy + i * columns + c, n);
      const Lanes normed = load(x + i * columns + c, n) * r[i];
      const Lanes v = r[i] * ((weighted ? g * weight : g) - normed * mean[i]);
      sum += g * normed;
      if (n == kLanes)
        kl::store(dx + i * columns + c, v);
      else
        kl::store_some(dx + i * columns + c, v, n);
    }
    if (share != nullptr) kl::store(share + c, kl::load(share + c) + sum);  // share is padded
  };
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) step(c, kLanes);
  if (c < columns) step(c, columns - c);
}

template <bool weighted>
void backward(const Plan& plan, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* w = weighted ? kl::data<const float>(call->inputs[2]) : nullptr;
  float* dx = kl::data<float>(call->outputs[0]);
  float* shares = kl::is_present(call->outputs[1]) ? static_cast<float*>(call->scratch) : nullptr;
  const double eps = call->scalars[0];
  const int64_t columns = plan.columns, width = padded(columns);
  const int64_t blocks = (plan.rows + kRowsPerBlock - 1) / kRowsPerBlock;
  const auto part = [&](int32_t slot) {
    float* share = shares == nullptr ? nullptr : shares + slot * width;
    if (share != nullptr) std::fill(share, share + width, 0.0f);
    int64_t n = blocks * slot / plan.slots * kRowsPerBlock;
    const int64_t end = std::min(plan.rows, blocks * (slot + 1) / plan.slots * kRowsPerBlock);
    // Four rows share one visit to dw; without dw single rows are written in a straighter line.
    for (; share != nullptr && n + kRowsPerBlock <= end; n += kRowsPerBlock)
      backward_rows<kRowsPerBlock, weighted>(dy + n * columns, x + n * columns, w, dx + n * columns,
                                             share, columns, eps);
    for (; n < end; ++n)
      backward_rows<1, weighted>(dy + n * columns, x + n * columns, w, dx + n * columns, share,
                                 columns, eps);
  };
  if (plan.slots == 1) {
    part(0);
  } else {
#pragma omp parallel for schedule(static, 1) num_threads(plan.slots)
    for (int32_t slot = 0; slot < plan.slots; ++slot) part(slot);
  }
  if (shares == nullptr) return;
  float* dw = kl::data<float>(call->outputs[1]);
  for (int64_t c = 0; c < columns; c += kLanes) {
    const int64_t n = std::min<int64_t>(kLanes, columns - c);
    Lanes sum{};
    for (int32_t slot = 0; slot < plan.slots; ++slot) sum += kl::load(shares + slot * width + c);
    sum += load(dw + c, n);
    if (n == kLanes)
      kl::store(dw + c, sum);
    else
      kl::store_some(dw + c, sum, n);
  }
}

bool worth_streaming(const Plan& plan, const float* y) {
  return plan.rows * plan.columns * int64_t{sizeof(float)} >= kStreamBytes &&
         plan.columns % kLanes == 0 && reinterpret_cast<uintptr_t>(y) % kl::kLaneBytes == 0;
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.operation == KL_BACKWARD) {
    kl::is_present(call->inputs[2]) ? backward<true>(p, call) : backward<false>(p, call);
    return kl::ok();
  }
  const bool weighted = kl::is_present(call->inputs[1]);
  if (worth_streaming(p, kl::data<const float>(call->outputs[0])))
    weighted ? forward<true, true>(p, call) : forward<false, true>(p, call);
  else
    weighted ? forward<true, false>(p, call) : forward<false, false>(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("rmsnorm", accepts, scratch_bytes, saved_bytes, prepare, run);
