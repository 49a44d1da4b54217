// The plain loss from hidden rows on: one row's logits at a time, made again in backward.
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

struct Plan {
  int32_t operation;
  int64_t rows, width, vocabulary;
};

struct SavedRow {
  float largest;  // of s*tanh(z/s)
  float sum;      // of exp(s*tanh(z/s) - largest)
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_contiguous(p->inputs[i])) return kl::unsupported("inputs must be contiguous");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_contiguous(p->outputs[i])) return kl::unsupported("outputs must be contiguous");
  return kl::ok();
}

Plan plan_of(const kl_problem* p) {
  const DLTensor* in = p->inputs + (p->operation == KL_FORWARD ? 0 : 1);  // x, w, targets
  return {p->operation, in[0].shape[0], in[0].shape[1], in[1].shape[0]};
}

size_t scratch_bytes(const kl_problem* p) {
  return static_cast<size_t>(plan_of(p).vocabulary) * sizeof(float);
}
size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(plan_of(p).rows) * sizeof(SavedRow);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, plan_of(p));
  return kl::ok();
}

void logits_of(const Plan& plan, const float* x, const float* w, float* z) {
  for (int64_t v = 0; v < plan.vocabulary; ++v) {
    double sum = 0;
    for (int64_t c = 0; c < plan.width; ++c) sum += double{x[c]} * w[v * plan.width + c];
    z[v] = static_cast<float>(sum);
  }
}

void forward(const Plan& plan, const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  const float* w = kl::data<const float>(call->inputs[1]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[2]);
  const int32_t* token_bytes = kl::data<const int32_t>(call->inputs[3]);
  float* nll = kl::data<float>(call->outputs[0]);
  auto* saved = static_cast<SavedRow*>(call->saved);
  auto* z = static_cast<float*>(call->scratch);
  const auto s = static_cast<float>(call->scalars[0]);
  double nll_sum = 0, byte_sum = 0;
  for (int64_t n = 0; n < plan.rows; ++n) {
    const int32_t target = targets[n];
    nll[n] = target == -1 ? 0 : std::numeric_limits<float>::quiet_NaN();
    if (target >= 0 && target < plan.vocabulary) {
      logits_of(plan, x + n * plan.width, w, z);
      float largest = -s;
      for (int64_t v = 0; v < plan.vocabulary; ++v)
        largest = std::fmax(largest, s * std::tanh(z[v] / s));
      double sum = 0;
      for (int64_t v = 0; v < plan.vocabulary; ++v)
        sum += std::exp(s * std::tanh(z[v] / s) - largest);
      saved[n] = {largest, static_cast<float>(sum)};
      nll[n] = static_cast<float>(largest + std::log(sum) - s * std::tanh(z[target] / s));
      byte_sum += token_bytes[target];
    }
    nll_sum += nll[n];
  }
  *kl::data<double>(call->outputs[1]) = nll_sum;
  *kl::data<double>(call->outputs[2]) = byte_sum;
}

void backward(const Plan& plan, const kl_call* call) {
  const float g = *kl::data<const float>(call->inputs[0]);
  const float* x = kl::data<const float>(call->inputs[1]);
  const float* w = kl::data<const float>(call->inputs[2]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[3]);
  float* dx = kl::data<float>(call->outputs[0]);
  float* dw = kl::data<float>(call->outputs[1]);
  const auto* saved = static_cast<const SavedRow*>(call->saved);
  auto* z = static_cast<float*>(call->scratch);
  const auto s = static_cast<float>(call->scalars[0]);
  for (int64_t n = 0; n < plan.rows; ++n, x += plan.width, dx += plan.width) {
    const int32_t target = targets[n];
    logits_of(plan, x, w, z);
    for (int64_t v = 0; v < plan.vocabulary; ++v) {
      const float t = std::tanh(z[v] / s);
      if (target >= 0 && target < plan.vocabulary)
        z[v] = g *
               (std::exp(s * t - saved[n].largest) / saved[n].sum - (v == target ? 1.0f : 0.0f)) *
               (1 - t * t);
      else
        z[v] = target == -1 ? 0 : std::numeric_limits<float>::quiet_NaN();
    }
    for (int64_t c = 0; c < plan.width; ++c) {
      double sum = 0;
      for (int64_t v = 0; v < plan.vocabulary; ++v) {
        sum += double{z[v]} * w[v * plan.width + c];
        dw[v * plan.width + c] += x[c] * z[v];
      }
      dx[c] = static_cast<float>(sum);
    }
  }
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  if (p.operation == KL_FORWARD)
    forward(p, call);
  else
    backward(p, call);
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("cross_entropy_full", accepts, scratch_bytes, saved_bytes, prepare, run);
