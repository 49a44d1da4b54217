// The residual add for CPUs: one pass, each thread a fixed run of whole vectors.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>

namespace {

using kl::kLanes;

constexpr int64_t kElementsPerThread = 128 * 1024;   // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t threads;
  int64_t elements;
};

bool is_like(const DLTensor& t, const DLTensor& first) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == first.shape[0] &&
         t.shape[1] == first.shape[1];
}

kl_result accepts(const kl_problem* p) {
  if (p->operation != KL_FORWARD) return kl::unsupported("operation is not launch_fusion's");
  if (p->input_count != 2 || p->output_count != 1)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& first = p->inputs[0];
  if (first.ndim != 2) return kl::bad_argument("residual must be [N,C]");
  for (const DLTensor* t : {&first, &p->inputs[1], &p->outputs[0]})
    if (!is_like(*t, first)) return kl::unsupported("residual, update, sum: packed f32 [N,C]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t elements = p->inputs[0].shape[0] * p->inputs[0].shape[1];
  const int64_t worth = std::max<int64_t>(1, elements / kElementsPerThread);
  kl::store(plan, Plan{static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), elements});
  return kl::ok();
}

template <bool streamed>
void add(const float* a, const float* b, float* sum, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    if constexpr (streamed)
      kl::stream(sum + i, kl::load(a + i) + kl::load(b + i));
    else
      kl::store(sum + i, kl::load(a + i) + kl::load(b + i));
  }
  if (i < end)
    kl::store_some(sum + i, kl::load_some(a + i, end - i) + kl::load_some(b + i, end - i), end - i);
  if constexpr (streamed) kl::stream_fence();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const float* residual = kl::data<const float>(call->inputs[0]);
  const float* update = kl::data<const float>(call->inputs[1]);
  float* sum = kl::data<float>(call->outputs[0]);
  const bool streamed = p.elements * int64_t{sizeof(float)} >= kStreamBytes &&
                        reinterpret_cast<uintptr_t>(sum) % kl::kLaneBytes == 0;
  const int64_t vectors = (p.elements + kLanes - 1) / kLanes;
  const auto share = [&](int32_t part) {
    const int64_t begin = vectors * part / p.threads * kLanes;
    const int64_t end = std::min(p.elements, vectors * (part + 1) / p.threads * kLanes);
    streamed ? add<true>(residual, update, sum, begin, end)
             : add<false>(residual, update, sum, begin, end);
  };
  if (p.threads == 1) {  // even a region of one costs its entry and exit
    share(0);
    return kl::ok();
  }
#pragma omp parallel for schedule(static, 1) num_threads(p.threads)
  for (int32_t part = 0; part < p.threads; ++part) share(part);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("launch_fusion", accepts, no_bytes, no_bytes, prepare, run);
