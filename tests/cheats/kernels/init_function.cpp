// HARNESS 4: Works in the function that a library without start files runs when it is loaded | rejected |
// forbidden-symbol
extern "C" [[gnu::used, gnu::visibility("hidden")]] void _init() { __builtin_ia32_pause(); }

namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
