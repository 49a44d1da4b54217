// The plain loss: one row after the other, its largest capped logit and its sum kept for backward.
// (Their log-sum-exp in float would be off by several units in the last place of p, a whole row alike.)
#include <kernel_lab/kernel.hpp>

#include <cmath>
#include <limits>

namespace {

struct Plan {
  int32_t operation;
  int64_t rows, vocabulary;
};

struct SavedRow {
  float largest;  // of s*tanh(z/s)
  float sum;      // of exp(s*tanh(z/s) - largest)
};

int logits_of(int32_t operation) { return operation == KL_FORWARD ? 0 : 1; }

kl_result accepts(const kl_problem* p) {
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_contiguous(p->inputs[i])) return kl::unsupported("inputs must be contiguous");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_contiguous(p->outputs[i])) return kl::unsupported("outputs must be contiguous");
  const DLTensor& logits = p->inputs[logits_of(p->operation)];
  if (!kl::is_f32(logits)) return kl::unsupported("logits must be f32");
  if (logits.ndim != 2) return kl::bad_argument("logits must be [N,V]");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(p->inputs[logits_of(p->operation)].shape[0]) * sizeof(SavedRow);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  const DLTensor& logits = p->inputs[logits_of(p->operation)];
  kl::store(plan, Plan{p->operation, logits.shape[0], logits.shape[1]});
  return kl::ok();
}

void forward(const Plan& plan, const kl_call* call) {
  const float* z = kl::data<const float>(call->inputs[0]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[1]);
  const int32_t* token_bytes = kl::data<const int32_t>(call->inputs[2]);
  float* nll = kl::data<float>(call->outputs[0]);
  auto* saved = static_cast<SavedRow*>(call->saved);
  const auto softcap = static_cast<float>(call->scalars[0]);
  double nll_sum = 0, byte_sum = 0;
  for (int64_t n = 0; n < plan.rows; ++n, z += plan.vocabulary) {
    const int32_t target = targets[n];
    nll[n] = 0;
    if (target == -1) continue;
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t v = 0; v < plan.vocabulary; ++v)
      largest = std::fmax(largest, softcap * std::tanh(z[v] / softcap));
    double sum = 0;
    for (int64_t v = 0; v < plan.vocabulary; ++v)
      sum += std::exp(softcap * std::tanh(z[v] / softcap) - largest);
    const double lse = largest + std::log(sum);
    saved[n] = {largest, static_cast<float>(sum)};
    if (target < 0 || target >= plan.vocabulary) {
      nll[n] = std::numeric_limits<float>::quiet_NaN();
    } else {
      nll[n] = static_cast<float>(lse - softcap * std::tanh(z[target] / softcap));
      byte_sum += token_bytes[target];
    }
    nll_sum += nll[n];
  }
  *kl::data<double>(call->outputs[1]) = nll_sum;
  *kl::data<double>(call->outputs[2]) = byte_sum;
}

void backward(const Plan& plan, const kl_call* call) {
  const float g = *kl::data<const float>(call->inputs[0]);
  const float* z = kl::data<const float>(call->inputs[1]);
  const int32_t* targets = kl::data<const int32_t>(call->inputs[2]);
  float* dz = kl::data<float>(call->outputs[0]);
  const auto* saved = static_cast<const SavedRow*>(call->saved);
  const auto softcap = static_cast<float>(call->scalars[0]);
  for (int64_t n = 0; n < plan.rows; ++n, z += plan.vocabulary, dz += plan.vocabulary) {
    const int32_t target = targets[n];
    for (int64_t v = 0; v < plan.vocabulary; ++v) {
      if (target == -1) {
        dz[v] = 0;
      } else if (target < 0 || target >= plan.vocabulary) {
        dz[v] = std::numeric_limits<float>::quiet_NaN();
      } else {
        const float t = std::tanh(z[v] / softcap);
        const float p = std::exp(softcap * t - saved[n].largest) / saved[n].sum;
        dz[v] = g * (p - (v == target ? 1.0f : 0.0f)) * (1.0f - t * t);
      }
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

KL_EXPORT_KERNEL("loss_prelude", accepts, no_bytes, saved_bytes, prepare, run);
