#include <spawn.h>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  char name[] = "true";
  char* const arguments[] = {name, nullptr};
  char* const environment[] = {nullptr};
  pid_t pid = 0;
  ::posix_spawn(&pid, "/bin/true", nullptr, nullptr, arguments, environment);
  return kl::ok();
}
EXPORT_RUN(run);
