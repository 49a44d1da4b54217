// The MLP for CPUs, a block of rows at a time, so that the hidden layer is squared while it is in
// the cache.
//   forward   each thread takes blocks of its own: h = x w1^T into `saved`, where it becomes
//             r = relu(h), then y = r^2 w2^T
//   backward  each thread makes dh and r^2 of its block and dx = dh w1; then all threads together
//             add the blocks' part of the weights' gradients
#include <kernel_lab/kernel.hpp>

#include <omp.h>
#include <algorithm>

namespace {

constexpr int64_t kBlockRows = 512;  // fewer cost more packing of the weights than the cache gives
constexpr int64_t kRowsPerThread = 64;  // fewer are not worth a thread

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t rows, width, hidden;  // N, C, F
  decltype(kl_services::sgemm) sgemm;
};

bool is_matrix(const DLTensor& t, int64_t rows, int64_t columns) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == rows &&
         t.shape[1] == columns;
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not fused_mlp's");
  if (p->input_count != (forward ? 3 : 4) || p->output_count != (forward ? 1 : 3))
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor* in = p->inputs + (forward ? 0 : 1);  // x, w1, w2
  if (in[0].ndim != 2 || in[1].ndim != 2) return kl::bad_argument("x is [N,C], w1 [F,C]");
  const int64_t N = in[0].shape[0], C = in[0].shape[1], F = in[1].shape[0];
  if (!is_matrix(p->inputs[0], N, C) || !is_matrix(in[0], N, C) || !is_matrix(p->outputs[0], N, C))
    return kl::unsupported("x, y, dy, dx: packed f32 [N,C]");
  if (!is_matrix(in[1], F, C) || !is_matrix(in[2], C, F))
    return kl::unsupported("w1: packed f32 [F,C], w2: packed f32 [C,F]");
  if (!forward && (!is_matrix(p->outputs[1], F, C) || !is_matrix(p->outputs[2], C, F)))
    return kl::unsupported("dw1: packed f32 [F,C], dw2: packed f32 [C,F]");
  return kl::ok();
}

Plan plan_of(const kl_problem* p, decltype(kl_services::sgemm) sgemm) {
  const DLTensor& w1 = p->inputs[p->operation == KL_FORWARD ? 1 : 2];
  const int64_t rows = p->inputs[0].shape[0];
  const int64_t worth = std::max<int64_t>(1, rows / kRowsPerThread);
  return {p->operation, static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)),
          rows,         w1.shape[1],
          w1.shape[0],  sgemm};
}

// Forward: r^2 of a block for each thread. Backward: r^2 and dh of a block for each thread.
size_t scratch_bytes(const kl_problem* p) {
  const Plan plan = plan_of(p, nullptr);
  const int64_t blocks = plan.threads * (plan.operation == KL_FORWARD ? 1 : 2);
  return static_cast<size_t>(blocks * std::min(plan.rows, kBlockRows) * plan.hidden) *
         sizeof(float);
}

size_t saved_bytes(const kl_problem* p) {
  const Plan plan = plan_of(p, nullptr);
  return static_cast<size_t>(plan.rows * plan.hidden) * sizeof(float);
}

kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, plan_of(p, services->sgemm));
  return kl::ok();
}

struct Rows {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};
// Share `part` of `parts`, as even as can be.
Rows share_of(Rows all, int64_t part, int64_t parts) {
  return {all.begin + all.count() * part / parts, all.begin + all.count() * (part + 1) / parts};
}

kl_result forward(const Plan& p, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w1 = kl::data<const float>(call->inputs[1]);
  const float* w2 = kl::data<const float>(call->inputs[2]);
  float* y = kl::data<float>(call->outputs[0]);
  const int64_t C = p.width, F = p.hidden;
  const int64_t rounds = (p.rows + p.threads * kBlockRows - 1) / (p.threads * kBlockRows);
  int32_t code = KL_OK;
#pragma omp parallel for schedule(static) num_threads(p.threads) reduction(max : code)
  for (int64_t block = 0; block < rounds * p.threads; ++block) {
    const Rows rows = share_of({0, p.rows}, block, rounds * p.threads);
    float* r = static_cast<float*>(call->saved) + rows.begin * F;
    float* a = static_cast<float*>(call->scratch) +
               omp_get_thread_num() * std::min(p.rows, kBlockRows) * F;
    code = std::max(
        code, p.sgemm('N', 'T', rows.count(), F, C, 1, x + rows.begin * C, C, w1, C, 0, r, F).code);
#pragma omp simd
    for (int64_t i = 0; i < rows.count() * F; ++i) {
      const float v = r[i] < 0 ? 0 : r[i];  // not max: what is not a number stays so
      r[i] = v;
      a[i] = v * v;
    }
    code = std::max(
        code, p.sgemm('N', 'T', rows.count(), C, F, 1, a, F, w2, F, 0, y + rows.begin * C, C).code);
  }
  return {code, code == KL_OK ? nullptr : "sgemm failed"};
}

kl_result backward(const Plan& p, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* w1 = kl::data<const float>(call->inputs[2]);
  const float* w2 = kl::data<const float>(call->inputs[3]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dw1 = kl::data<float>(call->outputs[1]);
  float* dw2 = kl::data<float>(call->outputs[2]);
  const int64_t C = p.width, F = p.hidden;
  const int64_t rounds = (p.rows + p.threads * kBlockRows - 1) / (p.threads * kBlockRows);
  float* a = static_cast<float*>(call->scratch);  // of one round's rows
  float* dh = a + p.threads * std::min(p.rows, kBlockRows) * F;
  int32_t code = KL_OK;
  for (int64_t round = 0; round < rounds; ++round) {
    const Rows all = share_of({0, p.rows}, round, rounds);
#pragma omp parallel for schedule(static, 1) num_threads(p.threads) reduction(max : code)
    for (int32_t part = 0; part < p.threads; ++part) {
      const Rows rows = share_of(all, part, p.threads);
      const int64_t at = (rows.begin - all.begin) * F;
      const float* r = static_cast<const float*>(call->saved) + rows.begin * F;
      code = std::max(code, p.sgemm('N', 'N', rows.count(), F, C, 1, dy + rows.begin * C, C, w2, F,
                                    0, dh + at, F)
                                .code);
#pragma omp simd
      for (int64_t i = 0; i < rows.count() * F; ++i) {
        a[at + i] = r[i] * r[i];
        dh[at + i] *= r[i] + r[i];
      }
      code = std::max(code, p.sgemm('N', 'N', rows.count(), C, F, 1, dh + at, F, w1, C, 0,
                                    dx + rows.begin * C, C)
                                .code);
    }
    code = std::max(
        code, p.sgemm('T', 'N', F, C, all.count(), 1, dh, F, x + all.begin * C, C, 1, dw1, C).code);
    code = std::max(
        code, p.sgemm('T', 'N', C, F, all.count(), 1, dy + all.begin * C, C, a, F, 1, dw2, F).code);
  }
  return {code, code == KL_OK ? nullptr : "sgemm failed"};
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  return p.operation == KL_FORWARD ? forward(p, call) : backward(p, call);
}

}  // namespace

KL_EXPORT_KERNEL("fused_mlp", accepts, scratch_bytes, saved_bytes, prepare, run);
