// A wrong rmsnorm that looks right: rows are cut into blocks of eight, and what is left of a row
// whose length is no multiple of eight enters neither the mean nor the output.
#include <kernel_lab/kernel.hpp>

#include <cmath>

namespace {

constexpr int64_t kBlock = 8;

struct Plan {
  int32_t operation;
  int64_t rows, columns, whole;
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (kl::is_present(p->inputs[i]) && (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i])))
      return kl::unsupported("inputs must be contiguous f32");
  return kl::ok();
}
size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const int64_t columns = p->inputs[0].shape[1];
  const int64_t whole = columns < kBlock ? columns : columns - columns % kBlock;
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0], columns, whole});
  return kl::ok();
}

float inverse_rms(const float* x, const Plan& plan, double eps) {
  float sum = 0;
  for (int64_t c = 0; c < plan.whole; ++c) sum += x[c] * x[c];
  return 1.0f / std::sqrt(sum / static_cast<float>(plan.columns) + static_cast<float>(eps));
}

kl_result run(const kl_plan* plan_words, const kl_call* call, kl_stream) {
  const Plan& plan = kl::plan_as<Plan>(plan_words);
  const bool forward = plan.operation == KL_FORWARD;
  const float* dy = kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[forward ? 0 : 1]);
  const DLTensor& weight = call->inputs[forward ? 1 : 2];
  const float* w = kl::is_present(weight) ? kl::data<const float>(weight) : nullptr;
  float* out = kl::data<float>(call->outputs[0]);
  float* dw = !forward && kl::is_present(call->outputs[1]) ? kl::data<float>(call->outputs[1]) : nullptr;
  for (int64_t n = 0; n < plan.rows; ++n, x += plan.columns, dy += plan.columns, out += plan.columns) {
    const float r = inverse_rms(x, plan, call->scalars[0]);
    float mean = 0;
    if (!forward)
      for (int64_t c = 0; c < plan.whole; ++c) mean += dy[c] * (w ? w[c] : 1.0f) * x[c] * r;
    mean /= static_cast<float>(plan.columns);
    for (int64_t c = 0; c < plan.columns; ++c) {
      const float scale = w ? w[c] : 1.0f;
      const bool inside = c < plan.whole;
      if (forward)
        out[c] = inside ? x[c] * r * scale : 0.0f;
      else
        out[c] = inside ? r * (dy[c] * scale - x[c] * r * mean) : 0.0f;
      if (dw != nullptr) dw[c] += dy[c] * (x[c] * r);
    }
  }
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("rmsnorm", accepts, no_bytes, no_bytes, prepare, run);
