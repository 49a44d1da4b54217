// HARNESS 17: ends its process | execution-failed | crash, early-exit
namespace {
kl_result run(const kl_plan*, const kl_call*, kl_stream) { __builtin_trap(); }
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
