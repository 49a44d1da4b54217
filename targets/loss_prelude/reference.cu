// The plain loss on a GPU: one block a row, its largest capped logit and its sum kept for backward;
// the sums over rows by one block.
#include <kernel_lab/packs.cuh>

namespace {

constexpr int kThreads = 256;

struct Plan {
  int32_t operation;
  bool is_bf16;
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
  if (!kl::is_f32(logits) && !kl::is_bf16(logits))
    return kl::unsupported("logits must be f32 or bf16");
  if (logits.ndim != 2) return kl::bad_argument("logits must be [N,V]");
  if (!kl::is_f32(p->operation == KL_FORWARD ? p->outputs[0] : p->inputs[0]))
    return kl::unsupported("nll and g must be f32");
  if (p->operation == KL_BACKWARD && kl::is_bf16(p->outputs[0]) != kl::is_bf16(logits))
    return kl::unsupported("dlogits have the dtype of the logits");
  return kl::ok();
}

size_t no_bytes(const kl_problem*) { return 0; }

size_t saved_bytes(const kl_problem* p) {
  return static_cast<size_t>(p->inputs[logits_of(p->operation)].shape[0]) * sizeof(SavedRow);
}

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  const DLTensor& logits = p->inputs[logits_of(p->operation)];
  kl::store(plan,
            Plan{p->operation, kl::is_bf16(logits), logits.shape[0], logits.shape[1]});
  return kl::ok();
}

template <class T>
__device__ float capped_tanh(T z, float softcap) {
  return tanhf(static_cast<float>(z) / softcap);
}

template <class T>
__global__ void forward(const T* z, const int32_t* targets, float* nll, SavedRow* saved,
                        int64_t vocabulary, float softcap) {
  const int64_t n = blockIdx.x;
  const int32_t target = targets[n];
  z += n * vocabulary;
  float largest = -INFINITY;
  for (int64_t v = threadIdx.x; v < vocabulary; v += kThreads)
    largest = fmaxf(largest, softcap * capped_tanh(z[v], softcap));
  largest = kl::block_max(largest);
  double sum = 0;
  for (int64_t v = threadIdx.x; v < vocabulary; v += kThreads)
    sum += expf(softcap * capped_tanh(z[v], softcap) - largest);
  sum = kl::block_sum(sum);
  if (threadIdx.x > 0) return;
  saved[n] = {largest, static_cast<float>(sum)};
  if (target == -1)
    nll[n] = 0;
  else if (target < 0 || target >= vocabulary)
    nll[n] = NAN;
  else
    nll[n] = static_cast<float>(largest + log(sum) - softcap * capped_tanh(z[target], softcap));
}

__global__ void sum_rows(const float* nll, const int32_t* targets, const int32_t* token_bytes,
                         double* nll_sum, double* byte_sum, int64_t rows, int64_t vocabulary) {
  double losses = 0, bytes = 0;
  for (int64_t n = threadIdx.x; n < rows; n += kThreads) {
    losses += nll[n];
    if (targets[n] >= 0 && targets[n] < vocabulary) bytes += token_bytes[targets[n]];
  }
  losses = kl::block_sum(losses);
  bytes = kl::block_sum(bytes);
  if (threadIdx.x == 0) *nll_sum = losses, *byte_sum = bytes;
}

template <class T>
__global__ void backward(const float* g, const T* z, const int32_t* targets, const SavedRow* saved,
                         T* dz, int64_t vocabulary, float softcap) {
  const int64_t n = blockIdx.x;
  const int32_t target = targets[n];
  z += n * vocabulary;
  dz += n * vocabulary;
  for (int64_t v = threadIdx.x; v < vocabulary; v += kThreads) {
    float value = 0;
    if (target < -1 || target >= vocabulary) {
      value = NAN;
    } else if (target != -1) {
      const float t = capped_tanh(z[v], softcap);
      const float p = expf(softcap * t - saved[n].largest) / saved[n].sum;
      value = *g * (p - (v == target ? 1.0f : 0.0f)) * (1.0f - t * t);
    }
    dz[v] = static_cast<T>(value);
  }
}

template <class T>
kl_result run_as(const Plan& p, const kl_call* call, cudaStream_t stream) {
  const auto softcap = static_cast<float>(call->scalars[0]);
  const auto blocks = static_cast<unsigned>(p.rows);
  auto* saved = static_cast<SavedRow*>(call->saved);
  if (p.operation == KL_BACKWARD) {
    if (p.rows == 0) return kl::ok();
    backward<T><<<blocks, kThreads, 0, stream>>>(
        kl::data<const float>(call->inputs[0]), kl::data<const T>(call->inputs[1]),
        kl::data<const int32_t>(call->inputs[2]), saved, kl::data<T>(call->outputs[0]),
        p.vocabulary, softcap);
    return kl::launch_status();
  }
  const int32_t* targets = kl::data<const int32_t>(call->inputs[1]);
  float* nll = kl::data<float>(call->outputs[0]);
  if (p.rows > 0) {
    forward<T><<<blocks, kThreads, 0, stream>>>(kl::data<const T>(call->inputs[0]), targets, nll,
                                                saved, p.vocabulary, softcap);
    if (const kl_result status = kl::launch_status(); status.code != KL_OK) return status;
  }
  sum_rows<<<1, kThreads, 0, stream>>>(nll, targets, kl::data<const int32_t>(call->inputs[2]),
                                       kl::data<double>(call->outputs[1]),
                                       kl::data<double>(call->outputs[2]), p.rows, p.vocabulary);
  return kl::launch_status();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream on) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto stream = static_cast<cudaStream_t>(on);
  return p.is_bf16 ? run_as<kl::bf16>(p, call, stream) : run_as<float>(p, call, stream);
}

}  // namespace

KL_EXPORT_KERNEL("loss_prelude", accepts, no_bytes, saved_bytes, prepare, run);
