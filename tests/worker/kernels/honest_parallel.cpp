#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  const float* x = kl::data<const float>(call->inputs[0]);
  float* y = kl::data<float>(call->outputs[0]);
  const int64_t n = test_kernel::count(call->inputs[0]);
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1;
  return kl::ok();
}
EXPORT_RUN(run);
