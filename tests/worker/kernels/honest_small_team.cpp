#include "kernel_under_test.hpp"

// A team smaller than the pool makes OpenMP end the other threads; the next call makes new ones.

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
#pragma omp parallel num_threads(2)
  test_kernel::add_one(call);
  return kl::ok();
}
EXPORT_RUN(run);
