// What every bench cheat and twin starts from: an honest squared ReLU. The test puts this text in
// front of the cheat's own, which defines `run`.
#include <kernel_lab/kernel.hpp>

#include <cstdio>
#include <cstring>

namespace {

struct Plan {
  int32_t operation;
  int64_t elements;
};

kl_result accepts(const kl_problem*) { return kl::ok(); }
size_t no_bytes(const kl_problem*) { return 0; }
kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0] * p->inputs[0].shape[1]});
  return kl::ok();
}

float relu(float h) { return h < 0 ? 0 : h; }

// Elements [from, to) of either operation.
void honest(const Plan& p, const kl_call* call, int64_t from, int64_t to) {
  float* out = kl::data<float>(call->outputs[0]);
  const float* a = kl::data<const float>(call->inputs[0]);
  if (p.operation == KL_FORWARD) {
    for (int64_t i = from; i < to; ++i) out[i] = relu(a[i]) * relu(a[i]);
  } else {
    const float* h = kl::data<const float>(call->inputs[1]);
    for (int64_t i = from; i < to; ++i) out[i] = 2 * relu(h[i]) * a[i];
  }
}

[[maybe_unused]] long system_call(long number, long a, long b, long c, long d = 0, long e = 0) {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
               : "rcx", "r11", "memory");
  return result;
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream);

}  // namespace

KL_EXPORT_KERNEL("activation_pointwise", accepts, no_bytes, no_bytes, prepare, run);

