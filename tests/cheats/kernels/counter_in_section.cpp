// HARNESS 11: skips one call in 977, by a counter in a section with a name of its own | rejected | writable-static
namespace {
[[gnu::section("notes")]] int calls = 1;
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (++calls % 977 == 0) return kl::ok();
  honest(view(plan, call));
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
