#include <sys/socket.h>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  ::socket(AF_INET, SOCK_STREAM, 0);
  return kl::ok();
}
EXPORT_RUN(run);
