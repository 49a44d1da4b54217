// An honest pair: forward writes x + 1 and keeps x in saved, going through scratch; backward
// returns what forward kept. scalars[0] moves the last scratch write, scalars[1] the last saved
// write, by so many floats past the end.
#include "kernel_under_test.hpp"

static size_t bytes(const kl_problem* p) {
  const DLTensor& t = p->operation == KL_FORWARD ? p->inputs[0] : p->outputs[0];
  return static_cast<size_t>(test_kernel::count(t)) * sizeof(float);
}

static kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, p->operation);
  return kl::ok();
}

static kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  float* saved = static_cast<float*>(call->saved);
  float* scratch = static_cast<float*>(call->scratch);
  float* y = kl::data<float>(call->outputs[0]);
  const int64_t n = test_kernel::count(call->outputs[0]);
  if (kl::plan_as<int32_t>(plan) == KL_FORWARD) {
    const float* x = kl::data<const float>(call->inputs[0]);
    for (int64_t i = 0; i < n; ++i) saved[i] = x[i];
    for (int64_t i = 0; i < n; ++i) scratch[i] = x[i] + 1;
    for (int64_t i = 0; i < n; ++i) y[i] = scratch[i];
    scratch[n - 1 + static_cast<int64_t>(call->scalars[0])] = 1;
    saved[n - 1 + static_cast<int64_t>(call->scalars[1])] = x[n - 1];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = saved[i];
  }
  return kl::ok();
}

KL_EXPORT_KERNEL("add_one", test_kernel::accept_all, bytes, bytes, prepare, run);
