// honest twin of 10: whole vectors, then the tail | ok |
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  int64_t i = 0;
  for (; i + 8 <= v.n; i += 8)
    for (int64_t j = i; j < i + 8; ++j) v.out[j] = honest_element(v, j);
  for (; i < v.n; ++i) v.out[i] = honest_element(v, i);
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
