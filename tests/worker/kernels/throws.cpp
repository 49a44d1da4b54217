#include <stdexcept>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  if (call != nullptr) throw std::runtime_error("a number was odd");
  return kl::ok();
}
EXPORT_RUN(run);
