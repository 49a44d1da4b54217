#include <vector>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
  std::vector<std::vector<char>> all;
  for (;;) all.emplace_back(64 << 20, 'x');
  return kl::ok();
}
EXPORT_RUN(run);
