#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  volatile bool again = true;
  while (again) test_kernel::add_one(call);
  return kl::ok();
}
EXPORT_RUN(run);
