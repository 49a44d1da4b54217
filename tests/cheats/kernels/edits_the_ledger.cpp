// HARNESS 18: opens a file of the lab | rejected | forbidden-symbol
#include <cstdio>

namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
  if (std::FILE* file = std::fopen("results/kernel_lab/ledger.jsonl", "a")) std::fclose(file);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
