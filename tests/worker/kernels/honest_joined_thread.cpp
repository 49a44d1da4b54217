#include <thread>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  std::thread worker([&] { test_kernel::add_one(call); });
  worker.join();
  return kl::ok();
}
EXPORT_RUN(run);
