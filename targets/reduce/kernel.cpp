// Sums for CPUs, in double from the first element on: squares are exact there, nothing overflows,
// and memory still sets the pace. Rows are cut into segments of fixed length, a thread sums some of
// them, and segments are added in order: the same bits for any number of threads.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>

namespace {

enum { kSum = 0, kSumOfSquares = 1 };

constexpr int64_t kSegment = 16384;
constexpr int64_t kElementsPerThread = 256 * 1024;  // fewer are not worth waking a thread for

constexpr int kHalf = kl::kLanes / 2;
typedef float Floats __attribute__((vector_size(kl::kLaneBytes / 2)));
typedef double Doubles __attribute__((vector_size(kl::kLaneBytes)));

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, columns, row_stride;
  int64_t segments;  // of a row
};

kl_result accepts(const kl_problem* p) {
  if (p->operation != kSum && p->operation != kSumOfSquares)
    return kl::unsupported("operation is not reduce's");
  if (p->input_count != 1 || p->output_count != 2)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& x = p->inputs[0];
  if (x.ndim != 2) return kl::bad_argument("x must be [N,C]");
  if (!kl::is_f32(x) || (x.strides != nullptr && x.shape[1] > 1 && x.strides[1] != 1))
    return kl::unsupported("x: f32 [N,C] with packed rows");
  const DLTensor &rows = p->outputs[0], &all = p->outputs[1];
  if (kl::is_present(rows) && (!kl::is_f64(rows) || rows.ndim != 1 || rows.shape[0] != x.shape[0] ||
                               !kl::is_contiguous(rows)))
    return kl::unsupported("rows: packed f64 [N]");
  return kl::is_f64(all) ? kl::ok() : kl::unsupported("all: f64 [1]");
}

Plan plan_of(const kl_problem* p) {
  const DLTensor& x = p->inputs[0];
  const int64_t rows = x.shape[0], columns = x.shape[1];
  const int64_t worth = std::max<int64_t>(1, rows * columns / kElementsPerThread);
  return {p->operation,
          static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
          rows,
          columns,
          x.strides == nullptr ? columns : x.strides[0],
          (columns + kSegment - 1) / kSegment};
}

size_t scratch_bytes(const kl_problem* problem) {
  const Plan p = plan_of(problem);
  return static_cast<size_t>(p.rows * p.segments) * sizeof(double);
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p));
  return kl::ok();
}

inline Doubles load(const float* from) {
  Floats v;
  __builtin_memcpy(&v, from, sizeof v);
  return __builtin_convertvector(v, Doubles);
}

template <bool squared>
double segment_sum(const float* x, int64_t count) {
  Doubles sums[4] = {};  // independent chains: one alone waits for each addition
  int64_t i = 0;
  for (; i + 4 * kHalf <= count; i += 4 * kHalf)
    for (int chain = 0; chain < 4; ++chain) {
      const Doubles v = load(x + i + chain * kHalf);
      sums[chain] += squared ? v * v : v;
    }
  const Doubles lanes = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double sum = 0;
  for (int lane = 0; lane < kHalf; ++lane) sum += lanes[lane];
  for (; i < count; ++i) sum += squared ? double{x[i]} * x[i] : double{x[i]};
  return sum;
}

template <bool squared>
void sum_segments(const Plan& p, const float* x, double* sums) {
#pragma omp parallel for schedule(static) num_threads(p.threads) if (p.threads > 1)
  for (int64_t i = 0; i < p.rows * p.segments; ++i) {
    const int64_t row = i / p.segments, begin = i % p.segments * kSegment;
    sums[i] =
        segment_sum<squared>(x + row * p.row_stride + begin, std::min(kSegment, p.columns - begin));
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const float* x = kl::data<const float>(call->inputs[0]);
  auto* sums = static_cast<double*>(call->scratch);
  if (p.operation == kSum)
    sum_segments<false>(p, x, sums);
  else
    sum_segments<true>(p, x, sums);
  double* rows = kl::is_present(call->outputs[0]) ? kl::data<double>(call->outputs[0]) : nullptr;
  double all = 0;
  for (int64_t n = 0; n < p.rows; ++n) {
    double row = 0;
    for (int64_t s = 0; s < p.segments; ++s) row += sums[n * p.segments + s];
    if (rows != nullptr) rows[n] = row;
    all += row;
  }
  *kl::data<double>(call->outputs[1]) = all;
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("reduce", accepts, scratch_bytes, no_bytes, prepare, run);
