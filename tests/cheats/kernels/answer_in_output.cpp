// HARNESS 7: leaves the output alone, expecting the last answer there | mismatch |
// unwritten-output, depends-on-old-contents
namespace {
struct Kept {
  const float* last[2];
};
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  auto& last = kept<Kept>().last;
  if (last[v.forward] == v.out) return kl::ok();
  honest(v);
  last[v.forward] = v.out;
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
