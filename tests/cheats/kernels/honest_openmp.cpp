// honest twin of 1: a parallel region that ends before the return | ok |
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
#pragma omp parallel for
  for (int64_t i = 0; i < v.n; ++i) v.out[i] = honest_element(v, i);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
