// The softcap for CPUs: one pass, each thread a fixed run of whole vectors.
#include <kernel_lab/exponential.hpp>
#include <kernel_lab/kernel.hpp>

#include <algorithm>

namespace {

using kl::kLanes;
using kl::Lanes;
using kl::Softcap;

constexpr int64_t kElementsPerThread = 64 * 1024;    // fewer are not worth waking a thread for
constexpr int64_t kStreamBytes = int64_t{24} << 20;  // an output that will not stay in a cache

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
    return kl::unsupported("operation is not logits_softcap's");
  if (p->input_count != (forward ? 1 : 2) || p->output_count != 1 || p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  if (!(p->scalars[0] > 0)) return kl::bad_argument("softcap must be positive");
  const DLTensor& first = p->inputs[0];
  if (first.ndim != 2) return kl::bad_argument("z must be [N,V]");
  for (int i = 0; i < p->input_count; ++i)
    if (!is_like(p->inputs[i], first)) return kl::unsupported("z, dy: packed f32 [N,V]");
  if (!is_like(p->outputs[0], first)) return kl::unsupported("y, dz: packed f32 [N,V]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }  // backward reads z itself

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const int64_t elements = p->inputs[0].shape[0] * p->inputs[0].shape[1];
  const int64_t worth = std::max<int64_t>(1, elements / kElementsPerThread);
  kl::store(plan, Plan{p->operation,
                       static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth)), elements});
  return kl::ok();
}

// out[i] = f(load) for i in [begin, end), where load(p) is the vector of p at i.
template <bool streamed, class F>
void map_range(const F& f, float* out, int64_t begin, int64_t end) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    const Lanes v = f([i](const float* from) { return kl::load(from + i); });
    if constexpr (streamed)
      kl::stream(out + i, v);
    else
      kl::store(out + i, v);
  }
  if (i < end) {
    const int64_t n = end - i;
    kl::store_some(out + i, f([i, n](const float* from) { return kl::load_some(from + i, n); }), n);
  }
  if constexpr (streamed) kl::stream_fence();
}

template <class F>
void map(const Plan& plan, const F& f, float* out) {
  const bool streamed = plan.elements * int64_t{sizeof(float)} >= kStreamBytes &&
                        reinterpret_cast<uintptr_t>(out) % kl::kLaneBytes == 0;
  const int64_t vectors = (plan.elements + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static, 1) num_threads(plan.threads) if (plan.threads > 1)
  for (int32_t part = 0; part < plan.threads; ++part) {
    const int64_t begin = vectors * part / plan.threads * kLanes;
    const int64_t end = std::min(plan.elements, vectors * (part + 1) / plan.threads * kLanes);
    if (streamed)
      map_range<true>(f, out, begin, end);
    else
      map_range<false>(f, out, begin, end);
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const Softcap cap(call->scalars[0]);
  float* out = kl::data<float>(call->outputs[0]);
  if (p.operation == KL_FORWARD) {
    const float* z = kl::data<const float>(call->inputs[0]);
    const Lanes s = kl::lanes(static_cast<float>(call->scalars[0]));
    map(
        p, [&](auto load) { return s * cap.tanh(load(z)); }, out);
  } else {
    const float* dy = kl::data<const float>(call->inputs[0]);
    const float* z = kl::data<const float>(call->inputs[1]);
    const auto gradient = [&](auto load) {
      const Lanes t = cap.tanh(load(z));
      return load(dy) * (kl::lanes(1.0f) - t * t);
    };
    map(p, gradient, out);
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("logits_softcap", accepts, no_bytes, no_bytes, prepare, run);
