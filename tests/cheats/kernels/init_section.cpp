// HARNESS 4: Works in the .init section, which runs when the library is loaded, and is no constructor
// by name | rejected | forbidden-symbol
namespace {

int64_t started = 0;
extern "C" {
[[gnu::used, gnu::visibility("hidden")]] void at_load() { started = 1; }
}
asm(".pushsection .init\n\tcall at_load\n\t.popsection");

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  if (started == 1) honest(view(plan, call));
  return kl::ok();
}

}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
