#include <stdexcept>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  try {
    throw std::runtime_error("inside");
  } catch (const std::exception&) {
    test_kernel::add_one(call);
  }
  return kl::ok();
}
EXPORT_RUN(run);
