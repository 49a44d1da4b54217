// The plain rmsnorm on a GPU: one block a row, as the formula reads, every sum in double.
// dw: the rows' 1/rms are kept in scratch, then one thread a column walks over the rows.
#include <kernel_lab/packs.cuh>

namespace {

constexpr int kThreads = 256;

struct Plan {
  int32_t operation;
  bool is_bf16;
  int64_t rows, columns;
};

kl_result accepts(const kl_problem* p) {
  if (p->inputs[0].ndim != 2) return kl::bad_argument("x must be [N,C]");
  const int matrices = p->operation == KL_FORWARD ? 1 : 2;
  for (int i = 0; i < p->input_count; ++i) {
    const DLTensor& t = p->inputs[i];
    if (!kl::is_present(t)) continue;
    if (!kl::is_contiguous(t)) return kl::unsupported("inputs must be contiguous");
    if (!kl::is_f32(t) && !(i < matrices && kl::is_bf16(t)))
      return kl::unsupported("x, dy: f32 or bf16; w: f32");
  }
  for (int i = 0; i < p->output_count; ++i)
    if (kl::is_present(p->outputs[i]) && !kl::is_contiguous(p->outputs[i]))
      return kl::unsupported("outputs must be contiguous");
  if (kl::is_bf16(p->inputs[0]) != kl::is_bf16(p->outputs[0]))
    return kl::unsupported("y, dx have the dtype of x");
  return kl::ok();
}

size_t scratch_bytes(const kl_problem* p) {
  return p->operation == KL_BACKWARD ? static_cast<size_t>(p->inputs[0].shape[0]) * sizeof(float)
                                     : 0;
}
size_t saved_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  if (const kl_result verdict = accepts(p); verdict.code != KL_OK) return verdict;
  kl::store(plan, Plan{p->operation, kl::is_bf16(p->inputs[0]), p->inputs[0].shape[0],
                       p->inputs[0].shape[1]});
  return kl::ok();
}

template <class T>
__device__ float inverse_rms(const T* x, int64_t columns, double eps) {
  double sum = 0;
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    const double v = static_cast<float>(x[c]);
    sum += v * v;
  }
  return static_cast<float>(1.0 /
                            sqrt(kl::block_sum(sum) / static_cast<double>(columns) + eps));
}

template <class T>
__global__ void forward(const T* x, const float* w, T* y, int64_t columns, double eps) {
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  const float r = inverse_rms(x, columns, eps);
  for (int64_t c = threadIdx.x; c < columns; c += kThreads)
    y[c] = static_cast<T>(static_cast<float>(x[c]) * r * (w != nullptr ? w[c] : 1.0f));
}

template <class T>
__global__ void backward_x(const T* dy, const T* x, const float* w, T* dx, float* inverse,
                           int64_t columns, double eps) {
  dy += blockIdx.x * columns;
  x += blockIdx.x * columns;
  dx += blockIdx.x * columns;
  const float r = inverse_rms(x, columns, eps);
  const auto g = [&](int64_t c) { return static_cast<float>(dy[c]) * (w != nullptr ? w[c] : 1.0f); };
  double sum = 0;
  for (int64_t c = threadIdx.x; c < columns; c += kThreads)
    sum += double{g(c)} * static_cast<float>(x[c]) * r;
  const auto mean = static_cast<float>(kl::block_sum(sum) / static_cast<double>(columns));
  for (int64_t c = threadIdx.x; c < columns; c += kThreads)
    dx[c] = static_cast<T>(r * (g(c) - static_cast<float>(x[c]) * r * mean));
  if (threadIdx.x == 0) inverse[blockIdx.x] = r;
}

template <class T>
__global__ void backward_w(const T* dy, const T* x, const float* inverse, float* dw, int64_t rows,
                           int64_t columns) {
  const int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= columns) return;
  double sum = dw[c];
  for (int64_t n = 0; n < rows; ++n)
    sum += static_cast<float>(dy[n * columns + c]) *
           (static_cast<float>(x[n * columns + c]) * inverse[n]);
  dw[c] = static_cast<float>(sum);
}

template <class T>
kl_result run_as(const Plan& p, const kl_call* call, cudaStream_t stream) {
  const int w_at = p.operation == KL_FORWARD ? 1 : 2;
  const float* w =
      kl::is_present(call->inputs[w_at]) ? kl::data<const float>(call->inputs[w_at]) : nullptr;
  const double eps = call->scalars[0];
  const T* first = kl::data<const T>(call->inputs[0]);
  T* out = kl::data<T>(call->outputs[0]);
  const auto blocks = static_cast<unsigned>(p.rows);
  if (p.operation == KL_FORWARD) {
    forward<T><<<blocks, kThreads, 0, stream>>>(first, w, out, p.columns, eps);
    return kl::launch_status();
  }
  const T* x = kl::data<const T>(call->inputs[1]);
  auto* inverse = static_cast<float*>(call->scratch);
  backward_x<T><<<blocks, kThreads, 0, stream>>>(first, x, w, out, inverse, p.columns, eps);
  if (const kl_result status = kl::launch_status(); status.code != KL_OK) return status;
  if (!kl::is_present(call->outputs[1])) return kl::ok();
  backward_w<T><<<static_cast<unsigned>((p.columns + 31) / 32), 32, 0, stream>>>(
      first, x, inverse, kl::data<float>(call->outputs[1]), p.rows, p.columns);
  return kl::launch_status();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream on) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto stream = static_cast<cudaStream_t>(on);
  if (p.rows == 0) return kl::ok();
  return p.is_bf16 ? run_as<kl::bf16>(p, call, stream) : run_as<float>(p, call, stream);
}

}  // namespace

KL_EXPORT_KERNEL("rmsnorm", accepts, scratch_bytes, saved_bytes, prepare, run);
