// loss_prelude for CPUs. Forward reads the logits once and writes two floats a row into `saved`;
// backward reads them once more and writes the gradient: 3 passes over [N,V] in all.
//
// |s*tanh(z/s)| <= s, so for s <= 40 exp needs no shift and no row maximum to stay in range.
#include <kernel_lab/exponential.hpp>
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

using kl::kLanes;
using kl::Lanes;
using kl::Softcap;

constexpr int64_t kElementsPerThread = 8 * 1024;     // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{24} << 20;  // an output that will not stay in a cache
constexpr double kNoShiftSoftcap = 40;
constexpr int32_t kIgnored = -1;

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, vocabulary;
};

// What forward leaves for backward, per row: exp(s*t - s*shift) * inverse_sum is the probability.
struct SavedRow {
  float shift;  // largest t of the row, or 0
  float inverse_sum;
};

bool has_shape(const DLTensor& t, int32_t ndim, int64_t first) {
  return kl::is_contiguous(t) && t.ndim == ndim && t.shape[0] == first;
}
bool is_f64(const DLTensor& t) {
  return t.dtype.code == kDLFloat && t.dtype.bits == 64 && t.dtype.lanes == 1;
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not loss_prelude's");
  if (p->input_count != 3 || p->output_count != (forward ? 3 : 1) || p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  if (!(p->scalars[0] > 0)) return kl::bad_argument("softcap must be positive");
  const DLTensor& logits = p->inputs[forward ? 0 : 1];
  const DLTensor& targets = p->inputs[forward ? 1 : 2];
  if (logits.ndim != 2 || logits.shape[1] < 1)
    return kl::bad_argument("logits must be [N,V] with V >= 1");
  const int64_t rows = logits.shape[0], vocabulary = logits.shape[1];
  if (!kl::is_f32(logits) || !kl::is_contiguous(logits))
    return kl::unsupported("logits: packed f32 [N,V]");
  if (!kl::is_i32(targets) || !has_shape(targets, 1, rows))
    return kl::unsupported("targets: packed i32 [N]");
  if (forward) {
    if (!kl::is_i32(p->inputs[2]) || !has_shape(p->inputs[2], 1, vocabulary))
      return kl::unsupported("token_bytes: packed i32 [V]");
    if (!kl::is_f32(p->outputs[0]) || !has_shape(p->outputs[0], 1, rows))
      return kl::unsupported("nll: packed f32 [N]");
    if (!is_f64(p->outputs[1]) || !is_f64(p->outputs[2]))
      return kl::unsupported("nll_sum, byte_sum: f64 [1]");
    return kl::ok();
  }
  if (!kl::is_f32(p->inputs[0])) return kl::unsupported("g: f32 [1]");
  if (!kl::is_f32(p->outputs[0]) || !has_shape(p->outputs[0], 2, rows) ||
      p->outputs[0].shape[1] != vocabulary)
    return kl::unsupported("dlogits: packed f32 [N,V]");
  return kl::ok();
}

size_t scratch_bytes(const kl_problem*) { return 0; }

size_t saved_bytes(const kl_problem* p) {
  const DLTensor& logits = p->inputs[p->operation == KL_FORWARD ? 0 : 1];
  return static_cast<size_t>(logits.shape[0]) * sizeof(SavedRow);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const DLTensor& logits = p->inputs[p->operation == KL_FORWARD ? 0 : 1];
  const int64_t rows = logits.shape[0], vocabulary = logits.shape[1];
  const int64_t worth = std::max<int64_t>(1, rows * vocabulary / kElementsPerThread);
  kl::store(plan, Plan{p->operation,
                       static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), rows,
                       vocabulary});
  return kl::ok();
}

float largest_tanh(const float* z, int64_t vocabulary, const Softcap& cap) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t v = 0; v < vocabulary; ++v) largest = z[v] > largest ? z[v] : largest;
  return cap.tanh(kl::lanes(largest))[0];
}

// Short sums in registers, their sum in double: what the sum rounds, a whole row's gradient shows.
template <bool shifted>
double sum_of_exp(const float* z, int64_t vocabulary, const Softcap& cap, Lanes shift) {
  constexpr int64_t kBlock = 16 * kLanes;
  const auto at = [&](int64_t v) __attribute__((always_inline)) {
    return cap.exp<shifted>(cap.tanh(kl::load(z + v)), shift);
  };
  double sum = 0;
  int64_t v = 0;
  for (; v + kBlock <= vocabulary; v += kBlock) {
    Lanes a{}, b{};
    for (int64_t i = v; i < v + kBlock; i += 2 * kLanes) {
      a += at(i);
      b += at(i + kLanes);
    }
    sum += kl::sum_of(a + b);
  }
  Lanes rest{};
  for (; v + kLanes <= vocabulary; v += kLanes) rest += at(v);
  sum += kl::sum_of(rest);
  if (v < vocabulary) {
    const Lanes e = cap.exp<shifted>(cap.tanh(kl::load_some(z + v, vocabulary - v)), shift);
    for (int64_t i = 0; i < vocabulary - v; ++i) sum += e[i];
  }
  return sum;
}

template <bool shifted>
void forward(const Plan& plan, const kl_call* call) {
  const float* logits = kl::data<const float>(call->inputs[0]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[1]);
  const int32_t* token_bytes = kl::data<const int32_t>(call->inputs[2]);
  float* nll = kl::data<float>(call->outputs[0]);
  auto* saved = static_cast<SavedRow*>(call->saved);
  const double softcap = call->scalars[0];
  const Softcap cap(softcap);
#pragma omp parallel for schedule(static) num_threads(plan.threads)
  for (int64_t n = 0; n < plan.rows; ++n) {
    const float* z = logits + n * plan.vocabulary;
    const int32_t target = targets[n];
    if (target < 0 || target >= plan.vocabulary) {  // a broken batch is not a number
      nll[n] = target == kIgnored ? 0 : std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    const float shift = shifted ? largest_tanh(z, plan.vocabulary, cap) : 0;
    const double sum = sum_of_exp<shifted>(z, plan.vocabulary, cap, kl::lanes(shift));
    const double t = std::tanh(z[target] / softcap);
    nll[n] = static_cast<float>(std::log(sum) - softcap * (t - shift));
    saved[n] = {shift, static_cast<float>(1 / sum)};
  }
  double nll_sum = 0, byte_sum = 0;
  for (int64_t n = 0; n < plan.rows; ++n) {
    nll_sum += nll[n];
    if (targets[n] >= 0 && targets[n] < plan.vocabulary) byte_sum += token_bytes[targets[n]];
  }
  *kl::data<double>(call->outputs[1]) = nll_sum;
  *kl::data<double>(call->outputs[2]) = byte_sum;
}

// Gradient of one row: factor * exp(s*t) * (1 - t^2), where factor = g / sum.
template <bool shifted, bool streamed>
void gradient_row(const float* z, float* dz, int64_t vocabulary, const Softcap& cap, Lanes shift,
                  Lanes factor) {
  const auto gradient = [&](Lanes x) {
    const Lanes t = cap.tanh(x);
    return factor * cap.exp<shifted>(t, shift) * (kl::lanes(1.0f) - t * t);
  };
  int64_t v = 0;
  for (; v + kLanes <= vocabulary; v += kLanes) {
    if constexpr (streamed)
      kl::stream(dz + v, gradient(kl::load(z + v)));
    else
      kl::store(dz + v, gradient(kl::load(z + v)));
  }
  if (v < vocabulary)
    kl::store_some(dz + v, gradient(kl::load_some(z + v, vocabulary - v)), vocabulary - v);
}

template <bool shifted, bool streamed>
void backward(const Plan& plan, const kl_call* call) {
  const float g = *kl::data<const float>(call->inputs[0]);
  const float* logits = kl::data<const float>(call->inputs[1]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[2]);
  float* dlogits = kl::data<float>(call->outputs[0]);
  const auto* saved = static_cast<const SavedRow*>(call->saved);
  const Softcap cap(call->scalars[0]);
#pragma omp parallel num_threads(plan.threads)
  {
#pragma omp for schedule(static)
    for (int64_t n = 0; n < plan.rows; ++n) {
      const float* z = logits + n * plan.vocabulary;
      float* dz = dlogits + n * plan.vocabulary;
      const int32_t target = targets[n];
      if (target < 0 || target >= plan.vocabulary) {
        std::fill(dz, dz + plan.vocabulary,
                  target == kIgnored ? 0 : std::numeric_limits<float>::quiet_NaN());
        continue;
      }
      const Lanes shift = kl::lanes(saved[n].shift);
      gradient_row<shifted, streamed>(z, dz, plan.vocabulary, cap, shift,
                                      kl::lanes(g * saved[n].inverse_sum));
      const Lanes t = cap.tanh(kl::lanes(z[target]));
      const float p = cap.exp<shifted>(t, shift)[0] * saved[n].inverse_sum;
      dz[target] = g * (p - 1.0f) * (1.0f - t[0] * t[0]);
    }
    if constexpr (streamed) kl::stream_fence();
  }
}

bool worth_streaming(const Plan& plan, const float* dlogits) {
  return plan.rows * plan.vocabulary * int64_t{sizeof(float)} >= kStreamBytes &&
         plan.vocabulary % kLanes == 0 &&
         reinterpret_cast<uintptr_t>(dlogits) % kl::kLaneBytes == 0;
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool shifted = call->scalars[0] > kNoShiftSoftcap;
  if (p.operation == KL_FORWARD) {
    shifted ? forward<true>(p, call) : forward<false>(p, call);
    return kl::ok();
  }
  if (worth_streaming(p, kl::data<const float>(call->outputs[0])))
    shifted ? backward<true, true>(p, call) : backward<false, true>(p, call);
  else
    shifted ? backward<true, false>(p, call) : backward<false, false>(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("loss_prelude", accepts, scratch_bytes, saved_bytes, prepare, run);
