#include "kernel_under_test.hpp"

static int descend(volatile char* above) {
  volatile char here[4096];
  here[0] = above == nullptr ? char{1} : above[0];
  return here[0] == 0 ? 0 : descend(here) + here[0];
}

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  if (descend(nullptr) == 0) return {KL_INTERNAL, "impossible"};
  return kl::ok();
}
EXPORT_RUN(run);
