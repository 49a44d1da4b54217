// The blend for CPUs: one pass each way, each thread a fixed run of whole vectors.
//   forward   read x and x0, write y
//   backward  read dy, x, x0 and dx0, write dx and dx0; the two sums are taken in float over short
//             runs, then in double per slot in scratch, then over slots in order: the same bits for
//             the same number of threads.
#include <kernel_lab/kernel.hpp>
#include <kernel_lab/lanes.hpp>

#include <algorithm>

namespace {

using kl::kLanes;
using kl::Lanes;

constexpr int64_t kElementsPerThread = 128 * 1024;   // fewer are not worth waking a thread for
constexpr int64_t kRun = 512;                        // elements summed in float
constexpr int64_t kStreamBytes = int64_t{48} << 20;  // an output beyond the last cache

struct Plan {
  int32_t operation;
  int32_t slots;  // shares of the elements; one thread each
  int64_t elements;
};

struct alignas(64) Sums {
  double dlambda, dmu;
};

bool is_packed_f32(const DLTensor& t) { return kl::is_f32(t) && kl::is_contiguous(t); }
bool is_like(const DLTensor& t, const DLTensor& first) {
  return is_packed_f32(t) && t.ndim == 2 && t.shape[0] == first.shape[0] &&
         t.shape[1] == first.shape[1];
}
bool is_single(const DLTensor& t) { return is_packed_f32(t) && t.ndim == 1 && t.shape[0] == 1; }

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not residual_blend's");
  if (p->input_count != (forward ? 4 : 5) || p->output_count != (forward ? 1 : 4))
    return kl::bad_argument("wrong number of inputs or outputs");
  const DLTensor& first = p->inputs[0];
  if (first.ndim != 2) return kl::bad_argument("x must be [N,C]");
  for (int i = 0; i < p->input_count; ++i)
    if (i < p->input_count - 2 ? !is_like(p->inputs[i], first) : !is_single(p->inputs[i]))
      return kl::unsupported("dy, x, x0: packed f32 [N,C]; lambda, mu: f32 [1]");
  for (int i = 0; i < p->output_count; ++i)
    if (i < 2 ? !is_like(p->outputs[i], first) : !is_single(p->outputs[i]))
      return kl::unsupported("y, dx, dx0: packed f32 [N,C]; dlambda, dmu: f32 [1]");
  return kl::ok();
}

int32_t slots_of(const kl_problem* p) {
  const int64_t elements = p->inputs[0].shape[0] * p->inputs[0].shape[1];
  const int64_t worth = std::max<int64_t>(1, elements / kElementsPerThread);
  return static_cast<int32_t>(std::clamp<int64_t>(p->threads, 1, worth));
}

size_t scratch_bytes(const kl_problem* p) {
  return p->operation == KL_BACKWARD ? static_cast<size_t>(slots_of(p)) * sizeof(Sums) : 0;
}

size_t saved_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, Plan{p->operation, slots_of(p), p->inputs[0].shape[0] * p->inputs[0].shape[1]});
  return kl::ok();
}

template <class F>
void for_each_slot(const Plan& plan, F f) {
  const int64_t vectors = (plan.elements + kLanes - 1) / kLanes;
  const auto part = [&](int32_t slot) {
    f(slot, vectors * slot / plan.slots * kLanes,
      std::min(plan.elements, vectors * (slot + 1) / plan.slots * kLanes));
  };
  if (plan.slots == 1) return part(0);  // even a region of one costs its entry and exit
#pragma omp parallel for schedule(static, 1) num_threads(plan.slots)
  for (int32_t slot = 0; slot < plan.slots; ++slot) part(slot);
}

inline Lanes load(const float* from, int64_t count) {
  return count == kLanes ? kl::load(from) : kl::load_some(from, count);
}
template <bool streamed>
inline void store(float* to, Lanes v, int64_t count) {
  if (count != kLanes)
    kl::store_some(to, v, count);
  else if constexpr (streamed)
    kl::stream(to, v);
  else
    kl::store(to, v);
}

template <bool streamed>
void forward(const Plan& plan, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* x0 = kl::data<const float>(call->inputs[1]);
  const Lanes lambda = kl::lanes(*kl::data<const float>(call->inputs[2]));
  const Lanes mu = kl::lanes(*kl::data<const float>(call->inputs[3]));
  float* y = kl::data<float>(call->outputs[0]);
  for_each_slot(plan, [=](int32_t, int64_t i, int64_t end) {
    const auto step = [=](int64_t at, int64_t n) __attribute__((always_inline)) {
      store<streamed>(y + at, lambda * load(x + at, n) + mu * load(x0 + at, n), n);
    };
    for (; i + kLanes <= end; i += kLanes) step(i, kLanes);
    if (i < end) step(i, end - i);
    if constexpr (streamed) kl::stream_fence();
  });
}

template <bool streamed>
void backward(const Plan& plan, const kl_call* call) {
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* x0 = kl::data<const float>(call->inputs[2]);
  const Lanes lambda = kl::lanes(*kl::data<const float>(call->inputs[3]));
  const Lanes mu = kl::lanes(*kl::data<const float>(call->inputs[4]));
  float* dx = kl::data<float>(call->outputs[0]);
  float* dx0 = kl::data<float>(call->outputs[1]);
  auto* sums = static_cast<Sums*>(call->scratch);
  for_each_slot(plan, [=](int32_t slot, int64_t i, int64_t end) {
    Sums total{0, 0};
    while (i < end) {
      const int64_t run_end = std::min(end, i + kRun);
      Lanes dlambda{}, dmu{};
      const auto step = [&](int64_t at, int64_t n) __attribute__((always_inline)) {
        const Lanes g = load(dy + at, n);
        dlambda += g * load(x + at, n);
        dmu += g * load(x0 + at, n);
        store<streamed>(dx + at, lambda * g, n);
        store<false>(dx0 + at, load(dx0 + at, n) + mu * g, n);
      };
      for (; i + kLanes <= run_end; i += kLanes) step(i, kLanes);
      if (i < run_end) step(i, run_end - i);
      i = run_end;
      total.dlambda += kl::sum_of(dlambda);
      total.dmu += kl::sum_of(dmu);
    }
    if constexpr (streamed) kl::stream_fence();
    sums[slot] = total;
  });
  Sums total{0, 0};
  for (int32_t slot = 0; slot < plan.slots; ++slot) {
    total.dlambda += sums[slot].dlambda;
    total.dmu += sums[slot].dmu;
  }
  *kl::data<float>(call->outputs[2]) += static_cast<float>(total.dlambda);
  *kl::data<float>(call->outputs[3]) += static_cast<float>(total.dmu);
}

bool worth_streaming(const Plan& plan, const float* out) {
  return plan.elements * int64_t{sizeof(float)} >= kStreamBytes &&
         reinterpret_cast<uintptr_t>(out) % kl::kLaneBytes == 0;
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool streamed = worth_streaming(p, kl::data<const float>(call->outputs[0]));
  if (p.operation == KL_FORWARD)
    streamed ? forward<true>(p, call) : forward<false>(p, call);
  else
    streamed ? backward<true>(p, call) : backward<false>(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("residual_blend", accepts, scratch_bytes, saved_bytes, prepare, run);
