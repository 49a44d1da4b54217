// The plain reordering: element by element.
#include <kernel_lab/kernel.hpp>

#include <initializer_list>

namespace {

struct Plan {
  bool forward, is_f32;
  int64_t B, T, H, D;
};

kl_result accepts(const kl_problem* p) {
  for (const DLTensor* t : {&p->inputs[0], &p->outputs[0]})
    if (t->ndim != 4 || !kl::is_contiguous(*t) || (!kl::is_f32(*t) && !kl::is_bf16(*t)))
      return kl::unsupported("tensors must be contiguous f32 or bf16 with four axes");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const bool forward = p->operation == KL_FORWARD;
  const int64_t* rows = (forward ? p->inputs[0] : p->outputs[0]).shape;
  kl::store(plan, Plan{forward, kl::is_f32(p->inputs[0]), rows[0], rows[1], rows[2], rows[3]});
  return kl::ok();
}

template <class E>
void reorder(const Plan& p, const E* from, E* to) {
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t t = 0; t < p.T; ++t)
      for (int64_t h = 0; h < p.H; ++h)
        for (int64_t d = 0; d < p.D; ++d) {
          const int64_t rows = ((b * p.T + t) * p.H + h) * p.D + d;
          const int64_t head_major = ((b * p.H + h) * p.T + t) * p.D + d;
          to[p.forward ? head_major : rows] = from[p.forward ? rows : head_major];
        }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.is_f32)
    reorder(p, kl::data<const float>(call->inputs[0]), kl::data<float>(call->outputs[0]));
  else
    reorder(p, kl::data<const uint16_t>(call->inputs[0]), kl::data<uint16_t>(call->outputs[0]));
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("proj_head_reshape", accepts, no_bytes, no_bytes, prepare, run);
