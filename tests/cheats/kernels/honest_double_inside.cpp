// honest twin of 12: computes in double and rounds once | ok |
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  for (int64_t i = 0; i < v.n; ++i) {
    const double r = relu(v.h[i]);
    v.out[i] = static_cast<float>(v.forward ? r * r : 2 * r * v.dy[i]);
  }
  return kl::ok();
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
