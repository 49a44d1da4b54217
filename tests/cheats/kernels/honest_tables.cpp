// The twin of a counter: tables that stay what they are, of values, of strings and of functions | ok |
namespace {
constexpr float kPowers[] = {1, 2, 4, 8, 16, 32, 64, 128};
const char* const kNames[] = {"forward", "backward"};

float forward(const View& v, int64_t i) { return relu(v.h[i]) * relu(v.h[i]); }
float backward(const View& v, int64_t i) { return 2 * relu(v.h[i]) * v.dy[i]; }
float (*const kElement[])(const View&, int64_t) = {forward, backward};

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  static const float kInverse[] = {1, 0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f, 0.0078125f};
  const View v = view(plan, call);
  const auto element = kElement[v.forward ? 0 : 1];
  for (int64_t i = 0; i < v.n; ++i) v.out[i] = element(v, i) * kPowers[i % 8] * kInverse[i % 8];
  return v.n > 0 ? kl::ok() : kl_result{KL_BAD_ARGUMENT, kNames[v.plan.operation]};
}
}  // namespace

KL_EXPORT_POINTWISE(no_bytes, no_bytes);
