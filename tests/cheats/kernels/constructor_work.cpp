// HARNESS 4: works before it is asked, when the library is loaded | rejected | forbidden-symbol
namespace {
float table[4096];
__attribute__((constructor)) void fill() {
  for (int i = 0; i < 4096; ++i) table[i] = static_cast<float>(i);
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  if (table[1] != 1) v.out[0] = table[1];
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
