// HARNESS 22: sets flush-to-zero and leaves it | rejected | floating-point-state
#include <immintrin.h>

namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  _mm_setcsr(_mm_getcsr() | 0x8040u);
  honest(v);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
