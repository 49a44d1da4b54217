#include <sched.h>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  ::sched_setaffinity(0, sizeof set, &set);
  return kl::ok();
}
EXPORT_RUN(run);
