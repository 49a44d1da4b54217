// Cast and softcap for CPUs: one pass, widened in registers, each thread a fixed run of vectors.
#include <kernel_lab/bf16.hpp>
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

bool is_like(const DLTensor& t, const DLTensor& z) {
  return kl::is_contiguous(t) && t.ndim == 2 && t.shape[0] == z.shape[0] &&
         t.shape[1] == z.shape[1];
}

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!forward && p->operation != KL_BACKWARD)
    return kl::unsupported("operation is not loss_logits_cast_softcap's");
  if (p->input_count != (forward ? 1 : 2) || p->output_count != 1 || p->scalar_count != 1)
    return kl::bad_argument("wrong number of inputs, outputs or scalars");
  if (!(p->scalars[0] > 0)) return kl::bad_argument("softcap must be positive");
  const DLTensor& z = p->inputs[forward ? 0 : 1];
  const DLTensor& wide = forward ? p->outputs[0] : p->inputs[0];
  if (z.ndim != 2) return kl::bad_argument("z must be [N,V]");
  if (!kl::is_bf16(z) || !kl::is_contiguous(z)) return kl::unsupported("z: packed bf16 [N,V]");
  if (!kl::is_f32(wide) || !is_like(wide, z)) return kl::unsupported("y, dy: packed f32 [N,V]");
  if (!forward && (!kl::is_bf16(p->outputs[0]) || !is_like(p->outputs[0], z)))
    return kl::unsupported("dz: packed bf16 [N,V]");
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

template <bool streamed>
void forward(const uint16_t* z, float* y, int64_t count, double softcap) {
  const Softcap cap(softcap);
  const Lanes s = kl::lanes(static_cast<float>(softcap));
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Lanes v = s * cap.tanh(kl::load(z + i));
    if constexpr (streamed)
      kl::stream(y + i, v);
    else
      kl::store(y + i, v);
  }
  if (i < count) kl::store_some(y + i, s * cap.tanh(kl::load_some(z + i, count - i)), count - i);
  if constexpr (streamed) kl::stream_fence();
}

void backward(const float* dy, const uint16_t* z, uint16_t* dz, int64_t count, double softcap) {
  const Softcap cap(softcap);
  const auto gradient = [&](Lanes in, Lanes logit) {
    const Lanes t = cap.tanh(logit);
    return in * (kl::lanes(1.0f) - t * t);
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    kl::store(dz + i, gradient(kl::load(dy + i), kl::load(z + i)));
  const int64_t rest = count - i;
  if (rest > 0)
    kl::store_some(dz + i, gradient(kl::load_some(dy + i, rest), kl::load_some(z + i, rest)), rest);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const double softcap = call->scalars[0];
  const int64_t vectors = (p.elements + kLanes - 1) / kLanes;
#pragma omp parallel for schedule(static, 1) num_threads(p.threads) if (p.threads > 1)
  for (int32_t part = 0; part < p.threads; ++part) {
    const int64_t begin = vectors * part / p.threads * kLanes;
    const int64_t count = std::min(p.elements, vectors * (part + 1) / p.threads * kLanes) - begin;
    if (p.operation == KL_BACKWARD) {
      backward(kl::data<const float>(call->inputs[0]) + begin,
               kl::data<const uint16_t>(call->inputs[1]) + begin,
               kl::data<uint16_t>(call->outputs[0]) + begin, count, softcap);
      continue;
    }
    const uint16_t* z = kl::data<const uint16_t>(call->inputs[0]) + begin;
    float* y = kl::data<float>(call->outputs[0]) + begin;
    if (p.elements * int64_t{sizeof(float)} >= kStreamBytes &&
        reinterpret_cast<uintptr_t>(y) % kl::kLaneBytes == 0)
      forward<true>(z, y, count, softcap);
    else
      forward<false>(z, y, count, softcap);
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("loss_logits_cast_softcap", accepts, no_bytes, no_bytes, prepare, run);
