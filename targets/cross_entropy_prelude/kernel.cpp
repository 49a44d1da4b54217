// cross_entropy_prelude for CPUs. A row is read from memory once, its maximum and its exponentials
// block by block. Backward evaluates them again, which is cheaper than
// another [N,V].
#include <kernel_lab/exponential.hpp>
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 16 * 1024;    // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{24} << 20;  // an output that will not stay in a cache
constexpr int32_t kIgnored = -1;

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, vocabulary;
};

struct SavedRow {
  float largest, inverse_sum;
};

bool is_rows(const DLTensor& t, int64_t rows) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 1 && t.shape[0] == rows;
}
bool is_matrix(const DLTensor& t, int64_t rows, int64_t columns) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == rows &&
         t.shape[1] == columns;
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not cross_entropy_prelude's");
  if (p->input_count != (forward ? 2 : 4) || p->output_count != (forward ? 3 : 1))
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor &z = p->inputs[forward ? 0 : 2], &targets = p->inputs[forward ? 1 : 3];
  if (z.ndim != 2 || z.shape[1] < 1) return kl::bad_argument("z must be [N,V] with V >= 1");
  const int64_t rows = z.shape[0], vocabulary = z.shape[1];
  if (!is_matrix(z, rows, vocabulary)) return kl::unsupported("z: packed f32 [N,V]");
  if (!kl::is_i32(targets) || !kl::is_contiguous(targets) || targets.shape[0] != rows)
    return kl::unsupported("targets: packed i32 [N]");
  const DLTensor* vectors = forward ? p->outputs : p->inputs;
  for (int i = 0; i < (forward ? 3 : 2); ++i)
    if (!is_rows(vectors[i], rows))
      return kl::unsupported("row_max, lse, target_logit and their gradients: packed f32 [N]");
  if (!forward && !is_matrix(p->outputs[0], rows, vocabulary))
    return kl::unsupported("dz: packed f32 [N,V]");
  return kl::ok();
}

size_t scratch_bytes(const kl_problem*) { return 0; }

const DLTensor& logits_of(const kl_problem* p) {
  return p->inputs[p->operation == KL_FORWARD ? 0 : 2];
}

size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(logits_of(p).shape[0]) * sizeof(SavedRow);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t rows = logits_of(p).shape[0], vocabulary = logits_of(p).shape[1];
  const int64_t worth = std::max<int64_t>(1, rows * vocabulary / kElementsPerThread);
  kl::store(plan,
            Plan{p->operation, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
                 rows, vocabulary});
  return kl::ok();
}

// Largest and sum of exponentials of a row in one pass. Every lane has a largest of its own, to
// which its sum refers: nothing is reduced across a vector, and arithmetic overlaps with reading.
struct Running {
  Lanes largest = kl::lanes(std::numeric_limits<float>::lowest());
  Lanes sum = {};

  // x(i), i < count: the next vectors.
  template <int count, class F>
  inline __attribute__((always_inline)) void add(F x) {
    Lanes higher[4] = {largest, largest, largest, largest};
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) higher[i % 4] = kl::at_least(x(i), higher[i % 4]);
    const Lanes top =
        kl::at_least(kl::at_least(higher[0], higher[1]), kl::at_least(higher[2], higher[3]));
    sum *= kl::exp_of_negative(largest - top);
    largest = top;
    Lanes sums[4] = {};
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) sums[i % 4] += kl::exp_of_negative(x(i) - top);
    sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

struct RowSum {
  float largest;
  double sum;
};
RowSum sum_of_exp(const float* z, int64_t vocabulary) {
  constexpr int kBlock = 16;
  Running row;
  int64_t v = 0;
  for (; v + kBlock * kLanes <= vocabulary; v += kBlock * kLanes)
    row.add<kBlock>([&](int i) { return kl::load(z + v + i * kLanes); });
  for (; v + kLanes <= vocabulary; v += kLanes) row.add<1>([&](int) { return kl::load(z + v); });
  if (v < vocabulary) {
    const Lanes last =
        kl::load_some(z + v, vocabulary - v, kl::lanes(-std::numeric_limits<float>::infinity()));
    row.add<1>([&](int) { return last; });
  }
  const float largest = kl::largest_of(row.largest);
  const Lanes sums = row.sum * kl::exp_of_negative(row.largest - kl::lanes(largest));
  return {largest, kl::sum_of(sums)};
}

void forward(const Plan& plan, const kl_call* call) {
  const float* logits = kl::data<const float>(call->inputs[0]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[1]);
  float* row_max = kl::data<float>(call->outputs[0]);
  float* lse = kl::data<float>(call->outputs[1]);
  float* target_logit = kl::data<float>(call->outputs[2]);
  auto* saved = static_cast<SavedRow*>(call->saved);
#pragma omp parallel for schedule(static) num_threads(plan.threads) if (plan.threads > 1)
  for (int64_t n = 0; n < plan.rows; ++n) {
    const float* z = logits + n * plan.vocabulary;
    const int32_t target = targets[n];
    const auto [largest, sum] = sum_of_exp(z, plan.vocabulary);
    saved[n] = {largest, static_cast<float>(1 / sum)};
    row_max[n] = largest;
    lse[n] = static_cast<float>(largest + std::log(sum));
    if (target >= 0 && target < plan.vocabulary)
      target_logit[n] = z[target];
    else  // a broken batch is not a number
      target_logit[n] = target == kIgnored ? lse[n] : std::numeric_limits<float>::quiet_NaN();
  }
}

template <bool streamed>
void backward(const Plan& plan, const kl_call* call) {
  const float* dlse = kl::data<const float>(call->inputs[0]);
  const float* dtarget = kl::data<const float>(call->inputs[1]);
  const float* logits = kl::data<const float>(call->inputs[2]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[3]);
  float* gradients = kl::data<float>(call->outputs[0]);
  const auto* saved = static_cast<const SavedRow*>(call->saved);
  const int64_t V = plan.vocabulary;
#pragma omp parallel num_threads(plan.threads) if (plan.threads > 1)
  {
#pragma omp for schedule(static)
    for (int64_t n = 0; n < plan.rows; ++n) {
      const float* z = logits + n * V;
      float* dz = gradients + n * V;
      const int32_t target = targets[n];
      const bool valid = target >= 0 && target < V;
      float of_lse = dlse[n];
      if (!valid)
        of_lse += target == kIgnored ? dtarget[n] : std::numeric_limits<float>::quiet_NaN();
      const Lanes largest = kl::lanes(saved[n].largest), inverse = kl::lanes(saved[n].inverse_sum);
      const Lanes factor = kl::lanes(of_lse);
      int64_t v = 0;
      for (; v + kLanes <= V; v += kLanes) {
        const Lanes g = factor * (kl::exp_of_negative(kl::load(z + v) - largest) * inverse);
        if constexpr (streamed)
          kl::stream(dz + v, g);
        else
          kl::store(dz + v, g);
      }
      if (v < V) {
        const Lanes e = kl::exp_of_negative(kl::load_some(z + v, V - v) - largest);
        kl::store_some(dz + v, factor * (e * inverse), V - v);
      }
      if (valid) dz[target] += dtarget[n];
    }
    if constexpr (streamed) kl::stream_fence();
  }
}

bool worth_streaming(const Plan& plan, const float* dz) {
  return plan.rows * plan.vocabulary * int64_t{sizeof(float)} >= kStreamBytes &&
         plan.vocabulary % kLanes == 0 && reinterpret_cast<uintptr_t>(dz) % kl::kLaneBytes == 0;
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.operation == KL_FORWARD)
    forward(p, call);
  else if (worth_streaming(p, kl::data<const float>(call->outputs[0])))
    backward<true>(p, call);
  else
    backward<false>(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("cross_entropy_prelude", accepts, scratch_bytes, saved_bytes, prepare, run);
