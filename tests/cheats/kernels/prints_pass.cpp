// HARNESS 17: prints PASS and does nothing | mismatch | unwritten-output
#include <cstdio>

namespace {
kl_result run(const kl_plan*, const kl_call*, kl_stream) {
  std::puts("PASS: all cases ok");
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
