// From hidden rows to the loss for CPUs, in chunks of rows whose logits stay in the last cache.
//   forward   z = x w^T of a chunk; each row's pass leaves its sum of exponentials and, in place of
//             z, its gradient times that sum; two more products turn the chunk's gradients into the
//             gradients of x and w for g = 1, in `saved`
//   backward  saved times g
// Three products of [N,C,V] in all, as a path that keeps the logits has; exponentials only once.
#include <kernel_lab/exponential.hpp>
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

using kl::kLanes;
using kl::Lanes;
using kl::Softcap;

constexpr int64_t kChunkBytes = int64_t{16} << 20;  // of logits
constexpr int64_t kChunkRows = 512;  // at most; fewer pack w and add to its gradient more often
constexpr int64_t kElementsPerThread = 32 * 1024;
constexpr double kNoShiftSoftcap = 40;  // exp(s) and its sums are floats up to there
constexpr int32_t kIgnored = -1;

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, width, vocabulary;  // N, C, V
  decltype(kl_services::sgemm) sgemm;
};

bool has_shape(const DLTensor& t, int64_t rows, int64_t columns) {
  return kl::is_contiguous(t) && t.ndim == (columns < 0 ? 1 : 2) && t.shape[0] == rows &&
         (columns < 0 || t.shape[1] == columns);
}
bool is_matrix(const DLTensor& t, int64_t rows, int64_t columns) {
  return kl::is_f32(t) && has_shape(t, rows, columns);
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not cross_entropy_full's");
  if (p->input_count != 4 || p->output_count != (forward ? 3 : 2) || p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  if (!(p->scalars[0] > 0)) return kl::bad_argument("softcap must be positive");
  const DLTensor* in = p->inputs + (forward ? 0 : 1);  // x, w, targets
  if (in[0].ndim != 2 || in[1].ndim != 2) return kl::bad_argument("x is [N,C], w [V,C]");
  const int64_t N = in[0].shape[0], C = in[0].shape[1], V = in[1].shape[0];
  if (!is_matrix(in[0], N, C) || !is_matrix(in[1], V, C))
    return kl::unsupported("x: packed f32 [N,C], w: packed f32 [V,C]");
  if (!kl::is_i32(in[2]) || !has_shape(in[2], N, -1))
    return kl::unsupported("targets: packed i32 [N]");
  if (!forward) {
    if (!kl::is_f32(p->inputs[0])) return kl::unsupported("g: f32 [1]");
    if (!is_matrix(p->outputs[0], N, C) || !is_matrix(p->outputs[1], V, C))
      return kl::unsupported("dx: packed f32 [N,C], dw: packed f32 [V,C]");
    return kl::ok();
  }
  if (!kl::is_i32(p->inputs[3]) || !has_shape(p->inputs[3], V, -1))
    return kl::unsupported("token_bytes: packed i32 [V]");
  if (!is_matrix(p->outputs[0], N, -1)) return kl::unsupported("nll: packed f32 [N]");
  if (!kl::is_f64(p->outputs[1]) || !kl::is_f64(p->outputs[2]))
    return kl::unsupported("nll_sum, byte_sum: f64 [1]");
  return kl::ok();
}

Plan plan_of(const kl_problem* p, decltype(kl_services::sgemm) sgemm) {
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 1);
  const int64_t N = in[0].shape[0], C = in[0].shape[1], V = in[1].shape[0];
  const int64_t worth = std::max<int64_t>(1, N * V / kElementsPerThread);
  return {p->operation, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), N, C, V,
          sgemm};
}

int64_t chunk_rows(const Plan& p) {
  const int64_t fitting = kChunkBytes / (p.vocabulary * int64_t{sizeof(float)});
  return std::min(p.rows, std::clamp<int64_t>(fitting, 16, kChunkRows));
}

// A chunk's logits, its x over the rows' sums, and those sums inverted.
size_t scratch_bytes(const kl_problem* problem) {
  if (problem->operation != KL_FORWARD) return 0;
  const Plan p = plan_of(problem, nullptr);
  return static_cast<size_t>(chunk_rows(p) * (p.vocabulary + p.width + 1)) * sizeof(float);
}

// Gradients of x and w for g = 1.
size_t saved_bytes(const kl_problem* problem) {
  const Plan p = plan_of(problem, nullptr);
  return static_cast<size_t>((p.rows + p.vocabulary) * p.width) * sizeof(float);
}

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p, services->sgemm));
  return kl::ok();
}

Lanes largest_tanh(const float* z, int64_t vocabulary, const Softcap& cap) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t v = 0; v < vocabulary; ++v) largest = z[v] > largest ? z[v] : largest;
  return cap.tanh(kl::lanes(largest));
}

// z ← exp(s*t - s*shift) * (1 - t^2) with t = tanh(z/s). Returns the sum of the exponentials: short
// sums in registers, their sum in double.
template <bool shifted>
double exponentials(float* z, int64_t vocabulary, const Softcap& cap, Lanes shift) {
  constexpr int64_t kBlock = 16 * kLanes;
  const auto slope = [](Lanes t, Lanes e) { return e * (kl::lanes(1.0f) - t * t); };
  double sum = 0;
  int64_t v = 0;
  while (v + kLanes <= vocabulary) {
    Lanes a{};
    const int64_t end = std::min(v + kBlock, vocabulary / kLanes * kLanes);
    for (; v < end; v += kLanes) {
      const Lanes t = cap.tanh(kl::load(z + v)), e = cap.exp<shifted>(t, shift);
      kl::store(z + v, slope(t, e));
      a += e;
    }
    sum += kl::sum_of(a);
  }
  if (v < vocabulary) {
    const Lanes t = cap.tanh(kl::load_some(z + v, vocabulary - v));
    const Lanes e = cap.exp<shifted>(t, shift);
    kl::store_some(z + v, slope(t, e), vocabulary - v);
    for (int64_t i = 0; i < vocabulary - v; ++i) sum += e[i];
  }
  return sum;
}

struct RowLoss {
  float nll, inverse_sum;
};

// A row's logits become its gradient times the sum of its exponentials.
template <bool shifted>
RowLoss read_row(float* z, int64_t vocabulary, int32_t target, double softcap, const Softcap& cap) {
  if (target < 0 || target >= vocabulary) {  // a broken batch is not a number
    const float other = target == kIgnored ? 0 : std::numeric_limits<float>::quiet_NaN();
    std::fill(z, z + vocabulary, other);
    return {other, 0};
  }
  const Lanes shift = shifted ? largest_tanh(z, vocabulary, cap) : Lanes{};
  const Lanes at_target = kl::lanes(z[target]);
  const double sum = exponentials<shifted>(z, vocabulary, cap, shift);
  // One difference, then its slope: as a difference of two products nothing would be left of it.
  const Lanes t = cap.tanh(at_target);
  const double above = double{cap.exp<shifted>(t, shift)[0]} - sum;
  z[target] = static_cast<float>(above * (1.0f - t[0] * t[0]));
  const double capped = softcap * (std::tanh(at_target[0] / softcap) - shift[0]);
  return {static_cast<float>(std::log(sum) - capped), static_cast<float>(1 / sum)};
}

template <bool shifted>
kl_result forward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w = kl::data<const float>(call->inputs[1]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[2]);
  const int32_t* token_bytes = kl::data<const int32_t>(call->inputs[3]);
  float* nll = kl::data<float>(call->outputs[0]);
  const int64_t C = p.width, V = p.vocabulary, chunk = chunk_rows(p);
  float* z = static_cast<float*>(call->scratch);
  float *scaled_x = z + chunk * V, *inverse_sums = scaled_x + chunk * C;
  float *dx = static_cast<float*>(call->saved), *dw = dx + p.rows * C;
  const double softcap = call->scalars[0];
  const Softcap cap(softcap);
  int32_t code = KL_OK;
  for (int64_t begin = 0; begin < p.rows; begin += chunk) {
    const int64_t rows = std::min(chunk, p.rows - begin);
    const float* x_chunk = x + begin * C;
    float* dx_chunk = dx + begin * C;
    code = std::max(code, p.sgemm('N', 'T', rows, V, C, 1, x_chunk, C, w, C, 0, z, V).code);
#pragma omp parallel for schedule(static) num_threads(p.threads) if (p.threads > 1)
    for (int64_t n = 0; n < rows; ++n) {
      const RowLoss row = read_row<shifted>(z + n * V, V, targets[begin + n], softcap, cap);
      nll[begin + n] = row.nll;
      inverse_sums[n] = row.inverse_sum;
      for (int64_t c = 0; c < C; ++c) scaled_x[n * C + c] = x_chunk[n * C + c] * row.inverse_sum;
    }
    code = std::max(code, p.sgemm('N', 'N', rows, C, V, 1, z, V, w, C, 0, dx_chunk, C).code);
    code = std::max(
        code,
        p.sgemm('T', 'N', V, C, rows, 1, z, V, scaled_x, C, begin == 0 ? 0.0f : 1.0f, dw, C).code);
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t c = 0; c < C; ++c) dx_chunk[n * C + c] *= inverse_sums[n];
  }
  double nll_sum = 0, byte_sum = 0;
  for (int64_t n = 0; n < p.rows; ++n) {
    nll_sum += nll[n];
    if (targets[n] >= 0 && targets[n] < V) byte_sum += token_bytes[targets[n]];
  }
  *kl::data<double>(call->outputs[1]) = nll_sum;
  *kl::data<double>(call->outputs[2]) = byte_sum;
  return {code, code == KL_OK ? nullptr : "sgemm failed"};
}

void backward(const Plan& p, const kl_call* call) {
  const float g = *kl::data<const float>(call->inputs[0]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dw = kl::data<float>(call->outputs[1]);
  const float* saved_dx = static_cast<const float*>(call->saved);
  const float* saved_dw = saved_dx + p.rows * p.width;
#pragma omp parallel num_threads(p.threads) if (p.threads > 1)
  {
#pragma omp for simd schedule(static) nowait
    for (int64_t i = 0; i < p.rows * p.width; ++i) dx[i] = g * saved_dx[i];
#pragma omp for simd schedule(static) nowait
    for (int64_t i = 0; i < p.width * p.vocabulary; ++i) dw[i] += g * saved_dw[i];
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.operation == KL_FORWARD)
    return call->scalars[0] > kNoShiftSoftcap ? forward<true>(p, call) : forward<false>(p, call);
  backward(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("cross_entropy_full", accepts, scratch_bytes, saved_bytes, prepare, run);
