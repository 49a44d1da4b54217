// The plain prelude: one row after the other, its largest logit and its sum kept for backward.
#include <kernel_lab/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

struct Plan {
  int32_t operation;
  int64_t rows, vocabulary;
};

struct SavedRow {
  float largest, sum;
};

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_contiguous(p->inputs[i])) return kl::unsupported("inputs must be contiguous");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_contiguous(p->outputs[i])) return kl::unsupported("outputs must be contiguous");
  return kl::ok();
}

const DLTensor& logits_of(const kl_problem* p) {
  return p->inputs[p->operation == KL_FORWARD ? 0 : 2];
}

size_t no_bytes(const kl_problem*) { return 0; }
size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(logits_of(p).shape[0]) * sizeof(SavedRow);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, logits_of(p).shape[0], logits_of(p).shape[1]});
  return kl::ok();
}

void forward(const Plan& plan, const kl_call* call) {
  const float* z = kl::data<const float>(call->inputs[0]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[1]);
  auto* saved = static_cast<SavedRow*>(call->saved);
  for (int64_t n = 0; n < plan.rows; ++n, z += plan.vocabulary) {
    const float largest = *std::max_element(z, z + plan.vocabulary);
    double sum = 0;
    for (int64_t v = 0; v < plan.vocabulary; ++v) sum += std::exp(z[v] - largest);
    saved[n] = {largest, static_cast<float>(sum)};
    const auto lse = static_cast<float>(largest + std::log(sum));
    const int32_t target = targets[n];
    kl::data<float>(call->outputs[0])[n] = largest;
    kl::data<float>(call->outputs[1])[n] = lse;
    kl::data<float>(call->outputs[2])[n] = target == -1 ? lse
                                           : target >= 0 && target < plan.vocabulary
                                               ? z[target]
                                               : std::numeric_limits<float>::quiet_NaN();
  }
}

void backward(const Plan& plan, const kl_call* call) {
  const float* dlse = kl::data<const float>(call->inputs[0]);
  const float* dtarget = kl::data<const float>(call->inputs[1]);
  const float* z = kl::data<const float>(call->inputs[2]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[3]);
  float* dz = kl::data<float>(call->outputs[0]);
  const auto* saved = static_cast<const SavedRow*>(call->saved);
  for (int64_t n = 0; n < plan.rows; ++n, z += plan.vocabulary, dz += plan.vocabulary) {
    const int32_t target = targets[n];
    const bool valid = target >= 0 && target < plan.vocabulary;
    const float factor = valid          ? dlse[n]
                         : target == -1 ? dlse[n] + dtarget[n]
                                        : std::numeric_limits<float>::quiet_NaN();
    for (int64_t v = 0; v < plan.vocabulary; ++v)
      dz[v] = factor * (std::exp(z[v] - saved[n].largest) / saved[n].sum);
    if (valid) dz[target] += dtarget[n];
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

KL_EXPORT_KERNEL("cross_entropy_prelude", accepts, no_bytes, saved_bytes, prepare, run);
