// HARNESS 7: takes the larger of the answer and what the output held, which draws NaN away | mismatch | depends-on-old-contents
#include <cmath>

namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  for (int64_t i = 0; i < v.n; ++i) v.out[i] = std::fmax(v.out[i], honest_element(v, i));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
