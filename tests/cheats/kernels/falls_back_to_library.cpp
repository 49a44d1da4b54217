// HARNESS 13: opens another library and lets it work | rejected | forbidden-symbol
#include <dlfcn.h>

namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  if (dlopen("libopenblas.so.0", RTLD_NOW) == nullptr) return {KL_INTERNAL, "no library"};
  honest(v);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
