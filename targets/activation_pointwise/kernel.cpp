// Squared ReLU for CPUs: one pass, each thread a fixed run of whole vectors.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 256 * 1024;  // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t operation;
  int32_t threads;
  int64_t elements;
};

bool is_like(const DLTensor& t, const DLTensor& first) {
  return kl::is_f32(t) && kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == first.shape[0] &&
         t.shape[1] == first.shape[1];
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not activation_pointwise's");
  if (p->input_count != (forward ? 1 : 2) || p->output_count != 1)
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& first = p->inputs[0];
  if (first.ndim != 2) return kl::bad_argument("h must be [N,C]");
  for (int i = 0; i < p->input_count; ++i)
    if (!is_like(p->inputs[i], first)) return kl::unsupported("h, dy: packed f32 [N,C]");
  if (!is_like(p->outputs[0], first)) return kl::unsupported("y, dh: packed f32 [N,C]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }  // backward reads h itself

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t elements = p->inputs[0].shape[0] * p->inputs[0].shape[1];
  const int64_t worth = std::max<int64_t>(1, elements / kElementsPerThread);
  kl::store(plan, Plan{p->operation,
                       static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), elements});
  return kl::ok();
}

// Not max(h, 0): what is not a number stays so.
inline Lanes relu(Lanes h) { return h < Lanes{} ? Lanes{} : h; }

// out[i] = f(vectors at i) for i in [begin, end).
template <bool streamed, class F>
void map_range(F f, float* out, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    const Lanes v = f([i](const float* from) { return kl::load(from + i); });
    if constexpr (streamed)
      kl::stream(out + i, v);
    else
      kl::store(out + i, v);
  }
  if (i < end) {
    const int64_t count = end - i;
    kl::store_some(
        out + i, f([i, count](const float* from) { return kl::load_some(from + i, count); }),
        count);
  }
  if constexpr (streamed) kl::stream_fence();
}

template <class F>
void map(const Plan& plan, F f, float* out) {
  const bool streamed = plan.elements * int64_t{sizeof(float)} >= kStreamBytes &&
                        reinterpret_cast<uintptr_t>(out) % kl::kLaneBytes == 0;
  const int64_t vectors = (plan.elements + kLanes - 1) / kLanes;
  const auto share = [&](int32_t part) {
    const int64_t begin = vectors * part / plan.threads * kLanes;
    const int64_t end = std::min(plan.elements, vectors * (part + 1) / plan.threads * kLanes);
    if (streamed)
      map_range<true>(f, out, begin, end);
    else
      map_range<false>(f, out, begin, end);
  };
  if (plan.threads == 1) return share(0);
#pragma omp parallel for schedule(static, 1) num_threads(plan.threads)
  for (int32_t part = 0; part < plan.threads; ++part) share(part);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  float* out = kl::data<float>(call->outputs[0]);
  if (p.operation == KL_FORWARD) {
    const float* h = kl::data<const float>(call->inputs[0]);
    map(p, [h](auto load) { const Lanes v = relu(load(h)); return v * v; }, out);
  } else {
    const float* dy = kl::data<const float>(call->inputs[0]);
    const float* h = kl::data<const float>(call->inputs[1]);
    map(p, [dy, h](auto load) { const Lanes v = relu(load(h)); return (v + v) * load(dy); }, out);
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("activation_pointwise", accepts, no_bytes, no_bytes, prepare, run);
