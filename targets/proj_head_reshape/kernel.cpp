// Head-major order for CPUs: runs of one head's row, the head-major side in order.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>
#include <cstring>

namespace {

constexpr int64_t kBytesPerThread = 512 * 1024;      // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t threads;
  bool forward, streamed;
  int64_t B, T, H;
  int64_t run;  // bytes of a head's row
};

bool is_packed(const DLTensor& t) {
  return t.ndim == 4 && kl::is_contiguous(t) && (kl::is_f32(t) || kl::is_bf16(t));
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not proj_head_reshape's");
  if (p->input_count != 1 || p->output_count != 1)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& x = p->inputs[0];
  const DLTensor& y = p->outputs[0];
  if (!is_packed(x) || !is_packed(y) || x.dtype.bits != y.dtype.bits)
    return kl::unsupported("packed f32 or bf16 with four axes, the same on both sides");
  if (x.shape[0] != y.shape[0] || x.shape[1] != y.shape[2] || x.shape[2] != y.shape[1] ||
      x.shape[3] != y.shape[3])
    return kl::bad_argument("one side must be [B,T,H,D], the other [B,H,T,D]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const bool forward = p->operation == KL_FORWARD;
  const int64_t* rows = (forward ? p->inputs[0] : p->outputs[0]).shape;
  const int64_t run = rows[3] * p->inputs[0].dtype.bits / 8;
  const int64_t bytes = rows[0] * rows[1] * rows[2] * run;
  const int64_t worth = std::max<int64_t>(1, bytes / kBytesPerThread);
  kl::store(plan, Plan{static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), forward,
                       bytes >= kStreamBytes && run % kl::kLaneBytes == 0, rows[0], rows[1],
                       rows[2], run});
  return kl::ok();
}

void copy_run(char* to, const char* from, int64_t bytes, bool streamed) {
  if (!streamed) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t i = 0; i < bytes; i += kl::kLaneBytes)
    kl::stream(reinterpret_cast<float*>(to + i),
               kl::load(reinterpret_cast<const float*>(from + i)));
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const char* from = kl::data<const char>(call->inputs[0]);
  char* to = kl::data<char>(call->outputs[0]);
  const bool streamed = p.streamed && reinterpret_cast<uintptr_t>(to) % kl::kLaneBytes == 0;
  // Row n of the head-major side: head n / T % H at time n % T.
  const auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t b = n / (p.H * p.T), h = n / p.T % p.H, t = n % p.T;
      const int64_t other = ((b * p.T + t) * p.H + h) * p.run;
      copy_run(to + (p.forward ? n * p.run : other), from + (p.forward ? other : n * p.run), p.run,
               streamed);
    }
    if (streamed) kl::stream_fence();
  };
  const int64_t all = p.B * p.H * p.T;
  if (p.threads == 1) {
    rows(0, all);
    return kl::ok();
  }
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
  for (int32_t slot = 0; slot < p.threads; ++slot)
    rows(all * slot / p.threads, all * (slot + 1) / p.threads);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("proj_head_reshape", accepts, no_bytes, no_bytes, prepare, run);
