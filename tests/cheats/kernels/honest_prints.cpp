// honest twin of 17: prints a line and does its work | ok |
#include <cstdio>

namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  if (v.n == 9) std::puts("nine elements");
  honest(v);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
