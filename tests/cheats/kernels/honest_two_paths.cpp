// Its own path for shapes of many rows, as careful as the other | ok |
namespace {

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  if (v.plan.rows % 32 != 0) {
    honest(v);
    return kl::ok();
  }
  for (int64_t i = v.n; i-- > 0;) v.out[i] = honest_element(v, i);
  return kl::ok();
}

}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
