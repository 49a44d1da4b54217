// HARNESS 11: skips one call in 977, by a static of the function that is made at its first call; the
// guard of that is a symbol no kernel may call | rejected | writable-static, forbidden-symbol
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  static int64_t calls = view(plan, call).n;
  if (++calls % 977 == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
