// The plain cast and softcap: one element after the other.
#include <kernel_lab/kernel.hpp>

#include <cmath>
#include <cstring>

namespace {

struct Plan {
  int32_t operation;
  int64_t elements;
};

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  const DLTensor& z = p->inputs[forward ? 0 : 1];
  const DLTensor& wide = forward ? p->outputs[0] : p->inputs[0];
  if (!kl::is_bf16(z) || !kl::is_contiguous(z)) return kl::unsupported("z must be contiguous bf16");
  if (!kl::is_f32(wide) || !kl::is_contiguous(wide))
    return kl::unsupported("y, dy must be contiguous f32");
  if (!forward && (!kl::is_bf16(p->outputs[0]) || !kl::is_contiguous(p->outputs[0])))
    return kl::unsupported("dz must be contiguous bf16");
  return z.ndim == 2 ? kl::ok() : kl::bad_argument("z must be [N,V]");
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0] * p->inputs[0].shape[1]});
  return kl::ok();
}

float widened(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
// To nearest, ties to even.
uint16_t narrowed(float value) {
  if (std::isnan(value)) return 0x7fc0;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t below = bits & 0xffff;
  bits >>= 16;
  if (below > 0x8000 || (below == 0x8000 && (bits & 1) != 0)) ++bits;
  return static_cast<uint16_t>(bits);
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto s = static_cast<float>(call->scalars[0]);
  const bool forward = p.operation == KL_FORWARD;
  const uint16_t* z = kl::data<const uint16_t>(call->inputs[forward ? 0 : 1]);
  for (int64_t i = 0; i < p.elements; ++i) {
    const float t = std::tanh(widened(z[i]) / s);
    if (forward)
      kl::data<float>(call->outputs[0])[i] = s * t;
    else
      kl::data<uint16_t>(call->outputs[0])[i] =
          narrowed(kl::data<const float>(call->inputs[0])[i] * (1 - t * t));
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("loss_logits_cast_softcap", accepts, no_bytes, no_bytes, prepare, run);
