#include <cstdio>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  std::printf("a line on stdout\n");
  std::fflush(stdout);
  std::fprintf(stderr, "a line on stderr\n");
  return kl::ok();
}
EXPORT_RUN(run);
