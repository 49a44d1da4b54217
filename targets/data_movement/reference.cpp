// The plain packing: element by element, in the order of the packed side.
#include <kernel_lab/kernel.hpp>

namespace {

struct Plan {
  int32_t operation, bytes;
  int64_t shape[4], strides[4];
};

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  const DLTensor& heads = forward ? p->inputs[0] : p->outputs[0];
  const DLTensor& packed = forward ? p->outputs[0] : p->inputs[0];
  if (heads.ndim != 4 || packed.ndim != 3 || packed.shape[2] != heads.shape[2] * heads.shape[3])
    return kl::bad_argument("heads must be [B,T,H,D] and packed [B,T,H*D]");
  if (!kl::is_contiguous(packed)) return kl::unsupported("the packed side must be contiguous");
  if (heads.dtype.bits != 32 && heads.dtype.bits != 16) return kl::unsupported("f32 or bf16");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const DLTensor& heads = p->operation == KL_FORWARD ? p->inputs[0] : p->outputs[0];
  Plan made{p->operation, heads.dtype.bits / 8, {}, {}};
  int64_t packed = 1;
  for (int i = 3; i >= 0; --i) {
    made.shape[i] = heads.shape[i];
    made.strides[i] = heads.strides == nullptr ? packed : heads.strides[i];
    packed *= heads.shape[i];
  }
  kl::store(plan, made);
  return kl::ok();
}

template <class E>
void copy(const Plan& p, const kl_call* call) {
  int64_t n = 0;
  for (int64_t b = 0; b < p.shape[0]; ++b)
    for (int64_t t = 0; t < p.shape[1]; ++t)
      for (int64_t h = 0; h < p.shape[2]; ++h)
        for (int64_t d = 0; d < p.shape[3]; ++d, ++n) {
          const int64_t at =
              b * p.strides[0] + t * p.strides[1] + h * p.strides[2] + d * p.strides[3];
          const bool forward = p.operation == KL_FORWARD;
          kl::data<E>(call->outputs[0])[forward ? n : at] =
              kl::data<const E>(call->inputs[0])[forward ? at : n];
        }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  p.bytes == 4 ? copy<uint32_t>(p, call) : copy<uint16_t>(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("data_movement", accepts, no_bytes, no_bytes, prepare, run);
