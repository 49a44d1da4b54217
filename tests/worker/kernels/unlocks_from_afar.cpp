#include <cstdint>
#include <sys/mman.h>

#include "kernel_under_test.hpp"

// A range that begins outside the shared buffers and ends behind them.

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  const auto at = reinterpret_cast<uintptr_t>(call->outputs[0].data) & ~uintptr_t{4095};
  const uintptr_t begin = at - (uintptr_t{1} << 39);
  ::munmap(reinterpret_cast<void*>(begin), at + 4096 - begin);
  return kl::ok();
}
EXPORT_RUN(run);
