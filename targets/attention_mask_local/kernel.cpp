// Masks for CPUs: a row is three fills, unseen before the window, seen, unseen after the query.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>

namespace {

constexpr float kHidden = -0x1p100f;

constexpr int64_t kElementsPerThread = 256 * 1024;   // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t threads;
  int64_t L, T;
};

kl_result accepts(const kl_problem* p) {
  if (p->operation != KL_FORWARD) return kl::unsupported("operation is not attention_mask_local's");
  if (p->input_count != 1 || p->output_count != 1)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& windows = p->inputs[0];
  const DLTensor& mask = p->outputs[0];
  if (windows.ndim != 1 || mask.ndim != 3 || mask.shape[0] != windows.shape[0] ||
      mask.shape[1] != mask.shape[2])
    return kl::bad_argument("windows must be [L] and the mask [L,T,T]");
  if (!kl::is_i32(windows) || !kl::is_contiguous(windows) || !kl::is_f32(mask) ||
      !kl::is_contiguous(mask))
    return kl::unsupported("packed: windows i32, mask f32");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t L = p->outputs[0].shape[0], T = p->outputs[0].shape[1];
  const int64_t worth = std::max<int64_t>(1, L * T * T / kElementsPerThread);
  kl::store(plan, Plan{static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), L, T});
  return kl::ok();
}

void fill(float* row, int64_t begin, int64_t end, float value, bool streamed) {
  int64_t j = begin;
  if (streamed) {
    while (j < end && reinterpret_cast<uintptr_t>(row + j) % kl::kLaneBytes != 0) row[j++] = value;
    for (; j + kl::kLanes <= end; j += kl::kLanes) kl::stream(row + j, kl::lanes(value));
  }
  std::fill(row + j, row + end, value);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const int32_t* windows = kl::data<const int32_t>(call->inputs[0]);
  float* mask = kl::data<float>(call->outputs[0]);
  const bool streamed = p.L * p.T * p.T * int64_t{sizeof(float)} >= kStreamBytes;
  const auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t i = n % p.T, first = std::clamp<int64_t>(i - windows[n / p.T], 0, i + 1);
      float* row = mask + n * p.T;
      fill(row, 0, first, kHidden, streamed);
      fill(row, first, i + 1, 0, streamed);
      fill(row, i + 1, p.T, kHidden, streamed);
    }
    if (streamed) kl::stream_fence();
  };
  const int64_t all = p.L * p.T;
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

KL_EXPORT_KERNEL("attention_mask_local", accepts, no_bytes, no_bytes, prepare, run);
