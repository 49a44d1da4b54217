// A product and its epilogue for CPUs. What is added goes into y first and the product on top of
// it, a block of rows at a time, so that y is written to memory once.
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cstring>

namespace {

constexpr int64_t kBlockRows = 1024;    // fewer cost more packing of w than the cache gives
constexpr int64_t kRowsPerThread = 64;  // fewer are not worth a thread

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, inner, columns;  // M, K, P
  decltype(kl_services::sgemm) sgemm;
};

bool is_matrix(const DLTensor& t, int64_t rows, int64_t columns) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == rows &&
         t.shape[1] == columns;
}
bool is_vector_or_absent(const DLTensor& t, int64_t columns) {
  return !kl::is_present(t) ||
         (kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 1 && t.shape[0] == columns);
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not matmul_epilogue's");
  if (p->input_count != (forward ? 4 : 3) || p->output_count != (forward ? 1 : 3))
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor* in = p->inputs + (forward ? 0 : 1);  // x, w
  if (in[0].ndim != 2 || in[1].ndim != 2) return kl::bad_argument("x is [M,K], w [P,K]");
  const int64_t M = in[0].shape[0], K = in[0].shape[1], P = in[1].shape[0];
  if (!is_matrix(in[0], M, K) || !is_matrix(in[1], P, K))
    return kl::unsupported("x: packed f32 [M,K], w: packed f32 [P,K]");
  if (forward) {
    if (!is_vector_or_absent(in[2], P)) return kl::unsupported("bias: packed f32 [P]");
    if (kl::is_present(in[3]) && !is_matrix(in[3], M, P))
      return kl::unsupported("residual: packed f32 [M,P]");
    if (!is_matrix(p->outputs[0], M, P)) return kl::unsupported("y: packed f32 [M,P]");
    return kl::ok();
  }
  if (!is_matrix(p->inputs[0], M, P)) return kl::unsupported("dy: packed f32 [M,P]");
  if (!is_matrix(p->outputs[0], M, K) || !is_matrix(p->outputs[1], P, K) ||
      !is_vector_or_absent(p->outputs[2], P))
    return kl::unsupported("dx: packed f32 [M,K], dw: [P,K], dbias: [P]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 1);
  const int64_t worth = std::max<int64_t>(1, in[0].shape[0] / kRowsPerThread);
  kl::store(plan,
            Plan{p->operation, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
                 in[0].shape[0], in[0].shape[1], in[1].shape[0], services->sgemm});
  return kl::ok();
}

const float* optional(const DLTensor& t) {
  return kl::is_present(t) ? kl::data<const float>(t) : nullptr;
}

// One of the two is there.
void put_addends(float* y, const float* bias, const float* residual, int64_t columns) {
  if (bias == nullptr) {
    std::memcpy(y, residual, static_cast<size_t>(columns) * sizeof(float));
  } else if (residual == nullptr) {
    std::memcpy(y, bias, static_cast<size_t>(columns) * sizeof(float));
  } else {
#pragma omp simd
    for (int64_t c = 0; c < columns; ++c) y[c] = bias[c] + residual[c];
  }
}

kl_result forward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w = kl::data<const float>(call->inputs[1]);
  const float* bias = optional(call->inputs[2]);
  const float* residual = optional(call->inputs[3]);
  float* y = kl::data<float>(call->outputs[0]);
  const int64_t M = p.rows, K = p.inner, P = p.columns;
  if (bias == nullptr && residual == nullptr)
    return p.sgemm('N', 'T', M, P, K, 1, x, K, w, K, 0, y, P);
  const int64_t blocks = (M + p.threads * kBlockRows - 1) / (p.threads * kBlockRows) * p.threads;
  int32_t code = KL_OK;
#pragma omp parallel for schedule(static) num_threads(p.threads) reduction(max : code)
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = M * block / blocks, end = M * (block + 1) / blocks;
    for (int64_t m = begin; m < end; ++m)
      put_addends(y + m * P, bias, residual == nullptr ? nullptr : residual + m * P, P);
    code = std::max(
        code,
        p.sgemm('N', 'T', end - begin, P, K, 1, x + begin * K, K, w, K, 1, y + begin * P, P).code);
  }
  return {code, code == KL_OK ? nullptr : "sgemm failed"};
}

// Columns [begin, begin + kStrip) of dy, summed: short sums first, which round less.
constexpr int64_t kStrip = 64;
void add_column_sums(float* dbias, const float* dy, int64_t begin, const Plan& p) {
  constexpr int64_t kShort = 256;
  const int64_t width = std::min(kStrip, p.columns - begin);
  float total[kStrip] = {};
  for (int64_t first = 0; first < p.rows; first += kShort) {
    float sum[kStrip] = {};
    for (int64_t m = first; m < std::min(p.rows, first + kShort); ++m)
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) sum[c] += dy[m * p.columns + begin + c];
    for (int64_t c = 0; c < width; ++c) total[c] += sum[c];
  }
  for (int64_t c = 0; c < width; ++c) dbias[begin + c] += total[c];
}

// Three passes over dy, each by all threads: the products fill the machine by themselves.
kl_result backward(const Plan& p, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* w = kl::data<const float>(call->inputs[2]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dw = kl::data<float>(call->outputs[1]);
  const int64_t M = p.rows, K = p.inner, P = p.columns;
  if (kl::is_present(call->outputs[2])) {
    float* dbias = kl::data<float>(call->outputs[2]);
#pragma omp parallel for schedule(static) num_threads(p.threads)
    for (int64_t begin = 0; begin < P; begin += kStrip) add_column_sums(dbias, dy, begin, p);
  }
  const kl_result result = p.sgemm('N', 'N', M, K, P, 1, dy, P, w, K, 0, dx, K);
  if (result.code != KL_OK) return result;
  return p.sgemm('T', 'N', P, K, M, 1, dy, P, x, K, 1, dw, K);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  return p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
}

}  // namespace

KL_EXPORT_KERNEL("matmul_epilogue", accepts, no_bytes, no_bytes, prepare, run);
