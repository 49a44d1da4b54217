#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  if (call != nullptr) return {KL_BAD_ARGUMENT, "only even numbers"};
  return kl::ok();
}
EXPORT_RUN(run);
