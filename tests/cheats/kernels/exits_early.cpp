// HARNESS 17: exits with 0 | rejected | forbidden-symbol
#include <cstdlib>

namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  std::exit(0);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
