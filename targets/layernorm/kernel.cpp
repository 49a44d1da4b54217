// Layer normalisation for CPUs. A row is read from memory once: its sums and the result are two
// passes, of which one hits the first cache.
//   forward   read x, write y; sums around the row's first element give mean and variance, kept
//   backward  read dy and x, write dx; dw and db are summed over four rows in registers, then per
//             slot in scratch, then over slots in order: the same bits for the same number of
//             threads.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <type_traits>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 128 * 1024;  // fewer are not worth waking a thread for
constexpr int kRowsPerBlock = 4;
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t operation;
  int32_t slots;  // shares of the rows; one thread each
  int64_t rows, columns;
};

bool is_packed_f32(const DLTensor& t) { return kl::is_f32(t) && kl::is_contiguous(t); }
bool is_matrix(const DLTensor& t, const DLTensor& like) {
  return is_packed_f32(t) && t.ndim == 2 && t.shape[0] == like.shape[0] &&
         t.shape[1] == like.shape[1];
}
bool is_row(const DLTensor& t, const DLTensor& like) {
  return is_packed_f32(t) && t.ndim == 1 && t.shape[0] == like.shape[1];
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not layernorm's");
  if (p->input_count != 3 || p->output_count != (forward ? 1 : 3) || p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  const DLTensor& x = p->inputs[0];
  if (x.ndim != 2 || x.shape[1] < 1) return kl::bad_argument("x must be [N,C] with C >= 1");
  if (!is_matrix(x, x) || !is_matrix(p->outputs[0], x) || (!forward && !is_matrix(p->inputs[1], x)))
    return kl::unsupported("x, y, dy, dx: packed f32 [N,C]");
  if (!is_row(p->inputs[2], x) || (forward && !is_row(p->inputs[1], x)))
    return kl::unsupported("w, b: packed f32 [C]");
  if (!forward && (!is_row(p->outputs[1], x) || !is_row(p->outputs[2], x)))
    return kl::unsupported("dw, db: packed f32 [C]");
  return kl::ok();
}

int32_t slots_of(const kl_problem* p) {
  const int64_t elements = p->inputs[0].shape[0] * p->inputs[0].shape[1];
  const int64_t worth = std::max<int64_t>(1, elements / kElementsPerThread);
  return static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth));
}

// A slot's share of dw or db: whole vectors and a page; threads with shares side by side are
// slower.
int64_t padded(int64_t columns) { return (columns + 15) / 16 * 16 + 1024; }

size_t scratch_bytes(const kl_problem* p) {
  if (p->operation != KL_BACKWARD) return 0;
  return static_cast<size_t>(slots_of(p) * 2 * padded(p->inputs[0].shape[1])) * sizeof(float);
}

// Mean and scale of each row: backward has as much to compute as to move.
size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(p->inputs[0].shape[0]) * 2 * sizeof(float);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, Plan{p->operation, slots_of(p), p->inputs[0].shape[0], p->inputs[0].shape[1]});
  return kl::ok();
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
// The lanes that a short vector does not have; a mean subtracted from them would count.
inline Lanes only(Lanes v, int64_t count) {
  if (count == kLanes) return v;
  float kept[kLanes] = {};
  kl::store_some(kept, v, count);
  return kl::load(kept);
}

// f(chain, c, count) for every vector of a row, on four chains of additions; the last may be short.
template <class F>
inline __attribute__((always_inline)) void for_vectors(int64_t columns, F f) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
    f(0, c, kLanes);
    f(1, c + kLanes, kLanes);
    f(2, c + 2 * kLanes, kLanes);
    f(3, c + 3 * kLanes, kLanes);
  }
  for (; c + kLanes <= columns; c += kLanes) f(0, c, kLanes);
  if (c < columns) f(0, c, columns - c);
}
struct Chains {
  Lanes chain[4] = {};
  Lanes total() const { return (chain[0] + chain[1]) + (chain[2] + chain[3]); }
};

// Of a row; `saved` holds them. scale: 1/sqrt(variance + eps).
struct Moments {
  float mean, scale;
};

// Rows that leave the range of float.
Moments wide_moments(const float* x, int64_t columns, double eps) {
  const auto count = static_cast<double>(columns);
  double sum = 0, squares = 0;
  for (int64_t c = 0; c < columns; ++c) sum += x[c];
  for (int64_t c = 0; c < columns; ++c) squares += (x[c] - sum / count) * (x[c] - sum / count);
  return {static_cast<float>(sum / count),
          static_cast<float>(1 / std::sqrt(squares / count + eps))};
}

// Mean, then the squares around it.
Moments moments_in_two_passes(const float* x, int64_t columns, double eps) {
  const auto count = static_cast<double>(columns);
  Chains sum, squares;
  for_vectors(columns,
              [&](int chain, int64_t c, int64_t n) { sum.chain[chain] += load(x + c, n); });
  const auto mean = static_cast<float>(kl::sum_of(sum.total()) / count);
  for_vectors(columns, [&](int chain, int64_t c, int64_t n) {
    const Lanes centred = only(load(x + c, n) - kl::lanes(mean), n);
    squares.chain[chain] += centred * centred;
  });
  const double square = kl::sum_of(squares.total());
  if (!(square <= FLT_MAX && square / count + eps > 1e-30)) return wide_moments(x, columns, eps);
  return {mean, static_cast<float>(1 / std::sqrt(square / count + eps))};
}

// From a row's sums around its first element. Where that is far from the mean, which would cancel,
// and where sums leave the range, two passes are made.
inline Moments moments_of(float sum, float squares, const float* x, int64_t columns, double eps) {
  const double inverse_columns = 1 / static_cast<double>(columns);
  const double shift = sum * inverse_columns;
  const double variance = squares * inverse_columns - shift * shift;
  const bool safe =
      shift * shift <= 4 * variance + eps && squares <= FLT_MAX && variance + eps > 1e-30;
  if (!safe) return moments_in_two_passes(x, columns, eps);
  return {static_cast<float>(x[0] + shift), static_cast<float>(1 / std::sqrt(variance + eps))};
}

// f(i, a, b): two vectors to be summed of row i; g(i, sum_a, sum_b). Rows are summed in pairs, the
// last of an odd number beside nothing.
template <int rows, class F, class G>
inline __attribute__((always_inline)) void sum_rows(F f, G g) {
  Lanes a[rows + 1] = {}, b[rows + 1] = {};
  for (int i = 0; i < rows; ++i) f(i, a[i], b[i]);
  for (int i = 0; i < rows; i += 2) {
    const kl::Four sums = kl::sums_of(a[i], b[i], a[i + 1], b[i + 1]);
    g(i, sums.of[0], sums.of[1]);
    if (i + 1 < rows) g(i + 1, sums.of[2], sums.of[3]);
  }
}

// A few rows: what one row waits for overlaps with the sums of the next.
template <bool streamed, int rows>
void forward_rows(const float* x, const float* w, const float* b, float* y, Moments* moments,
                  int64_t columns, double eps) {
  sum_rows<rows>(
      [&](int i, Lanes& sum, Lanes& squares) __attribute__((always_inline)) {
        const float* row = x + i * columns;
        const Lanes first = kl::lanes(row[0]);
        Chains sums, sums_of_squares;
        for_vectors(
            columns, [&](int chain, int64_t c, int64_t n) __attribute__((always_inline)) {
              const Lanes d = only(load(row + c, n) - first, n);
              sums.chain[chain] += d;
              sums_of_squares.chain[chain] += d * d;
            });
        sum = sums.total();
        squares = sums_of_squares.total();
      },
      [&](int i, float sum, float squares) __attribute__((always_inline)) {
        moments[i] = moments_of(sum, squares, x + i * columns, columns, eps);
      });
  Lanes mean[rows], scale[rows];  // in registers: a store to y might change them in memory
  for (int i = 0; i < rows; ++i) {
    mean[i] = kl::lanes(moments[i].mean);
    scale[i] = kl::lanes(moments[i].scale);
  }
  for_vectors(
      columns, [&](int, int64_t c, int64_t n) __attribute__((always_inline)) {
        const Lanes weight = load(w + c, n), bias = load(b + c, n);
        for (int i = 0; i < rows; ++i) {
          const Lanes centred = load(x + i * columns + c, n) - mean[i];
          store<streamed>(y + i * columns + c, centred * scale[i] * weight + bias, n);
        }
      });
}

// Means over a row of g = dy*w, and of g times the normed row.
struct GradientMeans {
  float g, g_n;
};
GradientMeans wide_means(const float* x, const float* dy, const float* w, int64_t columns,
                         const Moments& moments) {
  double g_sum = 0, product = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const double g = double{dy[c]} * w[c];
    g_sum += g;
    product += g * (double{x[c]} - moments.mean);
  }
  const auto count = static_cast<double>(columns);
  return {static_cast<float>(g_sum / count), static_cast<float>(product * moments.scale / count)};
}

// dx of a few rows, and their part of dw and db added to the slot's share.
template <bool streamed, int rows>
void backward_rows(const float* dy, const float* x, const float* w, const Moments* moments,
                   float* dx, float* dw, float* db, int64_t columns) {
  const double inverse_columns = 1 / static_cast<double>(columns);
  Lanes mean[rows], scale[rows];  // in registers: a store to dx might change them in memory
  GradientMeans means[rows];
  for (int i = 0; i < rows; ++i) {
    mean[i] = kl::lanes(moments[i].mean);
    scale[i] = kl::lanes(moments[i].scale);
  }
  sum_rows<rows>(
      [&](int i, Lanes& g_sum, Lanes& product) __attribute__((always_inline)) {
        Chains g_sums, products;
        for_vectors(
            columns, [&](int chain, int64_t c, int64_t n) __attribute__((always_inline)) {
              if constexpr (streamed) {  // from memory: asked for a block ahead
                __builtin_prefetch(dy + (i + rows) * columns + c, 0, 2);
                __builtin_prefetch(x + (i + rows) * columns + c, 0, 2);
              }
              const Lanes g = load(dy + i * columns + c, n) * load(w + c, n);
              g_sums.chain[chain] += g;
              products.chain[chain] += g * (load(x + i * columns + c, n) - mean[i]);
            });
        g_sum = g_sums.total();
        product = products.total();
      },
      [&](int i, float g_sum, float product) __attribute__((always_inline)) {
        const double dot = double{product} * moments[i].scale;
        means[i] = {static_cast<float>(g_sum * inverse_columns),
                    static_cast<float>(dot * inverse_columns)};
        if (!(std::fabs(product) <= FLT_MAX && std::fabs(g_sum) <= FLT_MAX))
          means[i] = wide_means(x + i * columns, dy + i * columns, w, columns, moments[i]);
      });
  Lanes mean_g[rows], mean_g_n[rows];
  for (int i = 0; i < rows; ++i) {
    mean_g[i] = kl::lanes(means[i].g);
    mean_g_n[i] = kl::lanes(means[i].g_n);
  }
  for_vectors(
      columns, [&](int, int64_t c, int64_t n) __attribute__((always_inline)) {
        const Lanes weight = load(w + c, n);
        Lanes w_sum{}, b_sum{};
        for (int i = 0; i < rows; ++i) {
          const Lanes g = load(dy + i * columns + c, n);
          const Lanes normed = (load(x + i * columns + c, n) - mean[i]) * scale[i];
          w_sum += g * normed;
          b_sum += g;
          const Lanes v = g * weight - mean_g[i] - normed * mean_g_n[i];
          store<streamed>(dx + i * columns + c, scale[i] * v, n);
        }
        kl::store(dw + c, kl::load(dw + c) + w_sum);  // shares are padded
        kl::store(db + c, kl::load(db + c) + b_sum);
      });
}

template <bool streamed>
void backward_slot(const Plan& plan, const kl_call* call, int32_t slot, float* dw, float* db) {
  const int64_t columns = plan.columns;
  const int64_t blocks = (plan.rows + kRowsPerBlock - 1) / kRowsPerBlock;
  const float* w = kl::data<const float>(call->inputs[2]);
  std::fill(dw, dw + padded(columns), 0.0f);
  std::fill(db, db + padded(columns), 0.0f);
  int64_t n = blocks * slot / plan.slots * kRowsPerBlock;
  const int64_t end = std::min(plan.rows, blocks * (slot + 1) / plan.slots * kRowsPerBlock);
  const auto rows = [&](auto count) {
    backward_rows<streamed, count>(kl::data<const float>(call->inputs[0]) + n * columns,
                                   kl::data<const float>(call->inputs[1]) + n * columns, w,
                                   static_cast<const Moments*>(call->saved) + n,
                                   kl::data<float>(call->outputs[0]) + n * columns, dw, db, columns);
    n += count;
  };
  while (n + kRowsPerBlock <= end) rows(std::integral_constant<int, kRowsPerBlock>());
  while (n < end) rows(std::integral_constant<int, 1>());
  if constexpr (streamed) kl::stream_fence();
}

template <class F>
void for_each_slot(const Plan& plan, F f) {
  if (plan.slots == 1) return f(0);  // even a region of one costs its entry and exit
#pragma omp parallel for schedule(static, 1) num_threads(plan.slots)
  for (int32_t slot = 0; slot < plan.slots; ++slot) f(slot);
}

template <bool streamed>
void forward(const Plan& plan, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w = kl::data<const float>(call->inputs[1]);
  const float* b = kl::data<const float>(call->inputs[2]);
  float* y = kl::data<float>(call->outputs[0]);
  auto* moments = static_cast<Moments*>(call->saved);
  const int64_t columns = plan.columns;
  for_each_slot(plan, [=](int32_t slot) {
    int64_t n = plan.rows * slot / plan.slots;
    const int64_t end = plan.rows * (slot + 1) / plan.slots;
    for (; n + kRowsPerBlock <= end; n += kRowsPerBlock)
      forward_rows<streamed, kRowsPerBlock>(x + n * columns, w, b, y + n * columns, moments + n,
                                            columns, call->scalars[0]);
    for (; n < end; ++n)
      forward_rows<streamed, 1>(x + n * columns, w, b, y + n * columns, moments + n, columns,
                                call->scalars[0]);
    if constexpr (streamed) kl::stream_fence();
  });
}

template <bool streamed>
void backward(const Plan& plan, const kl_call* call) {
  auto* shares = static_cast<float*>(call->scratch);
  const int64_t width = padded(plan.columns);
  for_each_slot(plan, [=](int32_t slot) {
    backward_slot<streamed>(plan, call, slot, shares + 2 * slot * width,
                            shares + (2 * slot + 1) * width);
  });
  for (int which = 0; which < 2; ++which) {
    float* out = kl::data<float>(call->outputs[1 + which]);
    for_vectors(
        plan.columns, [&](int, int64_t c, int64_t n) __attribute__((always_inline)) {
          Lanes sum = load(out + c, n);
          for (int32_t slot = 0; slot < plan.slots; ++slot)
            sum += kl::load(shares + (2 * slot + which) * width + c);
          store(out + c, sum, n);
        });
  }
}

bool worth_streaming(const Plan& plan, const float* out) {
  return plan.rows * plan.columns * int64_t{sizeof(float)} >= kStreamBytes &&
         plan.columns % kLanes == 0 && reinterpret_cast<uintptr_t>(out) % kl::kLaneBytes == 0;
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (worth_streaming(p, kl::data<const float>(call->outputs[0])))
    p.operation == KL_FORWARD ? forward<true>(p, call) : backward<true>(p, call);
  else
    p.operation == KL_FORWARD ? forward<false>(p, call) : backward<false>(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("layernorm", accepts, scratch_bytes, saved_bytes, prepare, run);
