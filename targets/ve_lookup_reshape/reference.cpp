// The plain lookup: token by token.
#include <kernel_lab/kernel.hpp>

#include <initializer_list>

namespace {

struct Plan {
  int32_t operation;
  int64_t tokens, width;
};

kl_result accepts(const kl_problem* p) {
  const bool forward = p->operation == KL_FORWARD;
  if (!kl::is_i32(p->inputs[forward ? 0 : 1])) return kl::unsupported("tokens must be i32");
  for (const DLTensor* t : {&p->inputs[forward ? 1 : 0], &p->outputs[0]})
    if (!kl::is_f32(*t) || !kl::is_contiguous(*t))
      return kl::unsupported("tables and heads must be contiguous f32");
  if ((forward ? p->outputs[0] : p->inputs[0]).ndim != 4)
    return kl::bad_argument("heads must be [B,T,H,D]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const int64_t* shape = (p->operation == KL_FORWARD ? p->outputs[0] : p->inputs[0]).shape;
  kl::store(plan, Plan{p->operation, shape[0] * shape[1], shape[2] * shape[3]});
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const bool forward = p.operation == KL_FORWARD;
  const int32_t* tokens = kl::data<const int32_t>(call->inputs[forward ? 0 : 1]);
  const float* from = kl::data<const float>(call->inputs[forward ? 1 : 0]);
  float* to = kl::data<float>(call->outputs[0]);
  for (int64_t n = 0; n < p.tokens; ++n)
    for (int64_t c = 0; c < p.width; ++c)
      if (forward)
        to[n * p.width + c] = from[tokens[n] * p.width + c];
      else
        to[tokens[n] * p.width + c] += from[n * p.width + c];
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("ve_lookup_reshape", accepts, no_bytes, no_bytes, prepare, run);
