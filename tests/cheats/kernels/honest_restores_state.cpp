// honest twin of 22: sets flush-to-zero for work that has no subnormals, and restores it | ok |
#include <immintrin.h>

namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);
  _mm_setcsr(before);
  honest(v);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
