// The plain rotary embedding: one pair of elements after the other.
#include <kernel_lab/kernel.hpp>

namespace {

struct Plan {
  int32_t operation;
  int64_t batch, length, heads[2], half;  // heads of q and of k
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i]))
      return kl::unsupported("inputs must be contiguous f32");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be contiguous f32");
  if (p->inputs[0].ndim != 4) return kl::bad_argument("q must be [B,T,H,D]");
  if (p->inputs[0].shape[3] != 2 * p->inputs[2].shape[1])
    return kl::bad_argument("cos must be [T,D/2]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const int64_t* q = p->inputs[0].shape;
  kl::store(plan,
            Plan{p->operation, q[0], q[1], {q[2], p->inputs[1].shape[2]}, p->inputs[2].shape[1]});
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const float direction = p.operation == KL_FORWARD ? 1.0f : -1.0f;
  const float* cosine = kl::data<const float>(call->inputs[2]);
  const float* sine = kl::data<const float>(call->inputs[3]);
  for (int which = 0; which < 2; ++which) {
    const float* x = kl::data<const float>(call->inputs[which]);
    float* y = kl::data<float>(call->outputs[which]);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t t = 0; t < p.length; ++t)
        for (int64_t h = 0; h < p.heads[which]; ++h, x += 2 * p.half, y += 2 * p.half)
          for (int64_t d = 0; d < p.half; ++d) {
            const float c = cosine[t * p.half + d], s = direction * sine[t * p.half + d];
            y[d] = x[d] * c + x[d + p.half] * s;
            y[d + p.half] = x[d + p.half] * c - x[d] * s;
          }
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("rotary_embedding", accepts, no_bytes, no_bytes, prepare, run);
