// Plain on purpose: a thread an element, a warp a head, a block a row. What deserves speed is a seam.
#include <trainer/cuda/kernels.hpp>

namespace kl::trainer::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarpsPerBlock = kThreads / kWarp;

unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

__device__ int64_t element() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ float value(bf16 x) { return __bfloat162float(x); }
__device__ bf16 rounded(float x) { return __float2bfloat16_rn(x); }

__device__ float warp_sum(float x) {
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

// A sum (or maximum) over the block in a fixed order, known to every thread.
template <class T, class Join>
__device__ T block_reduce(T x, Join join) {
  __shared__ T slots[kThreads];
  __syncthreads();  // an earlier reduction may still be read
  slots[threadIdx.x] = x;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) slots[threadIdx.x] = join(slots[threadIdx.x], slots[threadIdx.x + half]);
    __syncthreads();
  }
  return slots[0];
}
template <class T>
__device__ T block_sum(T x) {
  return block_reduce(x, [](T a, T b) { return a + b; });
}
__device__ float block_maximum(float x) {
  return block_reduce(x, [](float a, float b) { return fmaxf(a, b); });
}

__global__ void to_bf16_kernel(bf16* y, const float* x, int64_t size) {
  if (const int64_t i = element(); i < size) y[i] = rounded(x[i]);
}

__global__ void gather_kernel(bf16* e, const bf16* table, const int32_t* tokens, int64_t N, int64_t C) {
  if (const int64_t i = element(); i < N * C) e[i] = table[tokens[i / C] * C + i % C];
}

__global__ void gather_backward_kernel(float* dtable, const bf16* de, TokenPositions where, int64_t C) {
  const int64_t token = blockIdx.x;
  const int32_t begin = where.begin[token], end = where.begin[token + 1];
  if (begin == end) return;
  for (int64_t c = threadIdx.x; c < C; c += kThreads) {
    float sum = 0;
    for (int32_t i = begin; i < end; ++i) sum += value(de[where.positions[i] * C + c]);
    dtable[token * C + c] += sum;
  }
}

__global__ void residual_blend_kernel(bf16* y, const bf16* x, const bf16* x0, const float* lambda,
                                      const float* mu, int64_t size) {
  if (const int64_t i = element(); i < size) y[i] = rounded(*lambda * value(x[i]) + *mu * value(x0[i]));
}

__global__ void residual_blend_backward_kernel(bf16* dx, float* dx0, const bf16* x, const bf16* x0,
                                               const float* lambda, const float* mu, int64_t size,
                                               double* partial) {
  double by_x = 0, by_x0 = 0;
  for (int64_t i = element(); i < size; i += int64_t{gridDim.x} * kThreads) {
    const float dy = value(dx[i]);
    by_x += dy * value(x[i]);
    by_x0 += dy * value(x0[i]);
    dx0[i] += *mu * dy;
    dx[i] = rounded(*lambda * dy);
  }
  by_x = block_sum(by_x);
  by_x0 = block_sum(by_x0);
  if (threadIdx.x > 0) return;
  partial[2 * blockIdx.x] = by_x;
  partial[2 * blockIdx.x + 1] = by_x0;
}

__global__ void blend_sums_kernel(float* dlambda, float* dmu, const double* partial, int64_t blocks) {
  double by_x = 0, by_x0 = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += kThreads) {
    by_x += partial[2 * i];
    by_x0 += partial[2 * i + 1];
  }
  by_x = block_sum(by_x);
  by_x0 = block_sum(by_x0);
  if (threadIdx.x > 0) return;
  *dlambda += static_cast<float>(by_x);
  *dmu += static_cast<float>(by_x0);
}

__global__ void add_kernel(bf16* y, const bf16* x, int64_t size) {
  if (const int64_t i = element(); i < size) y[i] = rounded(value(y[i]) + value(x[i]));
}

__global__ void add_into_kernel(bf16* y, const float* a, const bf16* b, int64_t size) {
  if (const int64_t i = element(); i < size) y[i] = rounded(a[i] + value(b[i]));
}

// The head that this warp works on, of N * H, or -1.
__device__ int64_t head_of_warp(int64_t heads) {
  const int64_t head = int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / kWarp;
  return head < heads ? head : -1;
}

__global__ void rotary_norm_kernel(bf16* x, float* r, const float* cosine, const float* sine, int64_t N,
                                   int64_t T, int64_t H, int64_t D, float eps) {
  const int64_t head = head_of_warp(N * H), half = D / 2;
  if (head < 0) return;
  const int lane = threadIdx.x % kWarp;
  bf16 *x1 = x + head * D, *x2 = x1 + half;
  const float* c = cosine + head / H % T * half;
  const float* s = sine + head / H % T * half;
  float sum = 0;
  for (int64_t d = lane; d < half; d += kWarp) {
    const float y1 = value(x1[d]) * c[d] + value(x2[d]) * s[d];
    const float y2 = value(x2[d]) * c[d] - value(x1[d]) * s[d];
    sum += y1 * y1 + y2 * y2;
  }
  const float scale = rsqrtf(warp_sum(sum) / static_cast<float>(D) + eps);
  if (lane == 0) r[head] = scale;
  for (int64_t d = lane; d < half; d += kWarp) {
    const float a = value(x1[d]), b = value(x2[d]);
    x1[d] = rounded((a * c[d] + b * s[d]) * scale);
    x2[d] = rounded((b * c[d] - a * s[d]) * scale);
  }
}

__global__ void rotary_norm_backward_kernel(bf16* dx, const bf16* y, const float* r, const float* cosine,
                                            const float* sine, int64_t N, int64_t T, int64_t H, int64_t D) {
  const int64_t head = head_of_warp(N * H), half = D / 2;
  if (head < 0) return;
  const int lane = threadIdx.x % kWarp;
  bf16 *d1 = dx + head * D, *d2 = d1 + half;
  const bf16 *y1 = y + head * D, *y2 = y1 + half;
  const float* c = cosine + head / H % T * half;
  const float* s = sine + head / H % T * half;
  float dot = 0;
  for (int64_t d = lane; d < D; d += kWarp) dot += value(d1[d]) * value(y1[d]);
  dot = warp_sum(dot) / static_cast<float>(D);
  const float scale = r[head];
  for (int64_t d = lane; d < half; d += kWarp) {
    const float g1 = scale * (value(d1[d]) - value(y1[d]) * dot);  // of the rotated value
    const float g2 = scale * (value(d2[d]) - value(y2[d]) * dot);
    d1[d] = rounded(g1 * c[d] - g2 * s[d]);
    d2[d] = rounded(g1 * s[d] + g2 * c[d]);
  }
}

__global__ void value_gate_kernel(bf16* v, float* g, const bf16* n1, const bf16* w, const bf16* table,
                                  const int32_t* tokens, int64_t N, int64_t C, int64_t K, int64_t D) {
  const int64_t head = head_of_warp(N * K);
  if (head < 0) return;
  const int64_t n = head / K, k = head % K;
  const int lane = threadIdx.x % kWarp;
  const float a = warp_sum(value(n1[n * C + lane]) * value(w[k * kGateColumns + lane]));
  const float gate = 2 / (1 + expf(-a));
  if (lane == 0) g[head] = gate;
  const bf16* from = table + (tokens[n] * K + k) * D;
  for (int64_t d = lane; d < D; d += kWarp)
    v[head * D + d] = rounded(value(v[head * D + d]) + gate * value(from[d]));
}

__global__ void gate_gradient_kernel(float* da, const bf16* dv, const float* g, const bf16* table,
                                     const int32_t* tokens, int64_t N, int64_t K, int64_t D) {
  const int64_t head = head_of_warp(N * K);
  if (head < 0) return;
  const int lane = threadIdx.x % kWarp;
  const bf16* from = table + (tokens[head / K] * K + head % K) * D;
  float dot = 0;
  for (int64_t d = lane; d < D; d += kWarp) dot += value(dv[head * D + d]) * value(from[d]);
  dot = warp_sum(dot);
  const float gate = g[head];
  if (lane == 0) da[head] = dot * gate * (1 - gate / 2);  // 2 sigmoid' = gate (1 - gate / 2)
}

__global__ void gate_input_gradient_kernel(bf16* dn1, const float* da, const bf16* w, int64_t N, int64_t C,
                                           int64_t K) {
  const int64_t i = element(), n = i / kGateColumns, c = i % kGateColumns;
  if (n >= N) return;
  float sum = value(dn1[n * C + c]);
  for (int64_t k = 0; k < K; ++k) sum += da[n * K + k] * value(w[k * kGateColumns + c]);
  dn1[n * C + c] = rounded(sum);
}

__global__ void value_table_backward_kernel(float* dtable, const bf16* dv, const float* g,
                                            TokenPositions where, int64_t K, int64_t D) {
  const int64_t token = blockIdx.x, width = K * D;
  const int32_t begin = where.begin[token], end = where.begin[token + 1];
  if (begin == end) return;
  for (int64_t c = threadIdx.x; c < width; c += kThreads) {
    float sum = 0;
    for (int32_t i = begin; i < end; ++i) {
      const int64_t n = where.positions[i];
      sum += g[n * K + c / D] * value(dv[n * width + c]);
    }
    dtable[token * width + c] += sum;
  }
}

// Block b sums its share of the rows; thread c * K + k would waste lanes, so elements are looped.
__global__ void gate_weight_partial_kernel(float* partial, const float* da, const bf16* n1, int64_t N,
                                           int64_t C, int64_t K) {
  const int64_t first = N * blockIdx.x / gridDim.x, last = N * (blockIdx.x + 1) / gridDim.x;
  for (int64_t i = threadIdx.x; i < K * kGateColumns; i += kThreads) {
    const int64_t k = i / kGateColumns, c = i % kGateColumns;
    float sum = 0;
    for (int64_t n = first; n < last; ++n) sum += da[n * K + k] * value(n1[n * C + c]);
    partial[blockIdx.x * K * kGateColumns + i] = sum;
  }
}

__global__ void gate_weight_sums_kernel(float* dw, const float* partial, int64_t elements) {
  const int64_t i = element();
  if (i >= elements) return;
  float sum = 0;
  for (int64_t block = 0; block < kGateBlocks; ++block) sum += partial[block * elements + i];
  dw[i] += sum;
}

__global__ void masked_softmax_kernel(bf16* p, const float* s, int64_t T, int64_t window, float scale) {
  const int64_t row = blockIdx.x, t = row % T;
  const int64_t first = t > window ? t - window : 0;
  s += row * T;
  p += row * T;
  float top = -INFINITY;
  for (int64_t j = first + threadIdx.x; j <= t; j += kThreads) top = fmaxf(top, scale * s[j]);
  top = block_maximum(top);
  float sum = 0;
  for (int64_t j = first + threadIdx.x; j <= t; j += kThreads) sum += __expf(scale * s[j] - top);
  const float inverse = 1 / block_sum(sum);
  for (int64_t j = threadIdx.x; j < T; j += kThreads)
    p[j] = rounded(j < first || j > t ? 0.0f : __expf(scale * s[j] - top) * inverse);
}

__global__ void masked_softmax_backward_kernel(bf16* ds, const bf16* p, const float* dp, int64_t T,
                                               int64_t window) {
  const int64_t row = blockIdx.x, t = row % T;
  const int64_t first = t > window ? t - window : 0;
  ds += row * T;
  p += row * T;
  dp += row * T;
  float dot = 0;
  for (int64_t j = first + threadIdx.x; j <= t; j += kThreads) dot += value(p[j]) * dp[j];
  dot = block_sum(dot);
  for (int64_t j = threadIdx.x; j < T; j += kThreads)
    ds[j] = rounded(j < first || j > t ? 0.0f : value(p[j]) * (dp[j] - dot));
}

__global__ void relu_squared_kernel(bf16* a, const bf16* h, int64_t size) {
  const int64_t i = element();
  if (i >= size) return;
  const float x = fmaxf(value(h[i]), 0.0f);
  a[i] = rounded(x * x);
}

__global__ void relu_squared_backward_kernel(bf16* dh, const bf16* da, const bf16* h, int64_t size) {
  if (const int64_t i = element(); i < size) dh[i] = rounded(2 * fmaxf(value(h[i]), 0.0f) * value(da[i]));
}

__global__ void mean_loss_kernel(double* loss, const float* nll, const int32_t* targets, int64_t N,
                                 double share) {
  double sum = 0, count = 0;
  for (int64_t n = threadIdx.x; n < N; n += kThreads) {
    sum += nll[n];
    count += targets[n] >= 0;
  }
  sum = block_sum(sum);
  count = block_sum(count);
  if (threadIdx.x == 0 && count > 0) *loss += share * sum / count;
}

__global__ void squares_kernel(double* partial, const float* g, int64_t size) {
  double sum = 0;
  for (int64_t i = element(); i < size; i += int64_t{gridDim.x} * kThreads) sum += double{g[i]} * g[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void root_of_sum_kernel(double* norm, const double* partial, int64_t blocks) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *norm = sqrt(sum);
}

__global__ void adamw_kernel(float* w, bf16* copy, const float* g, float* m, float* v, int64_t size,
                             const AdamScalars* scalars, const double* loss, double limit) {
  const int64_t i = element();
  if (i >= size || !(*loss <= limit)) return;  // a NaN is not below the limit either
  const AdamScalars s = *scalars;
  m[i] = s.beta1 * m[i] + (1 - s.beta1) * g[i];
  v[i] = s.beta2 * v[i] + (1 - s.beta2) * g[i] * g[i];
  w[i] -= s.rate * m[i] / (sqrtf(v[i]) * s.inverse_root_correction2 + s.eps);
  copy[i] = rounded(w[i]);
}

__device__ uint64_t mix64(uint64_t x) {  // as trainer/random.hpp
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

template <class F>
struct BitsOf;
template <>
struct BitsOf<bf16> {
  using Type = uint16_t;
};
template <>
struct BitsOf<float> {
  using Type = uint32_t;
};
template <>
struct BitsOf<double> {
  using Type = uint64_t;
};

// The next number up or down, on the bits: away from zero is one more, towards it one less.
template <class Bits>
__device__ Bits next(Bits bits, bool up, Bits infinity) {
  constexpr Bits sign = Bits(Bits(1) << (sizeof(Bits) * 8 - 1));
  const Bits magnitude = bits & Bits(~sign);
  if (magnitude > infinity) return bits;  // NaN
  if (magnitude == 0) return up ? Bits(1) : Bits(sign | 1);
  const bool away = up == ((bits & sign) == 0);
  if (away && magnitude == infinity) return bits;
  return away ? Bits(bits + 1) : Bits(bits - 1);
}

template <class F>
__global__ void move_last_place_kernel(F* values, int64_t size, Move move,
                                       typename BitsOf<F>::Type infinity) {
  const int64_t i = element();
  if (i >= size) return;
  const uint64_t key = mix64(move.seed + mix64(mix64(*move.step) + move.call));
  const uint64_t draw = mix64(key + static_cast<uint64_t>(i)) % 3;
  auto* bits = reinterpret_cast<typename BitsOf<F>::Type*>(values);
  if (draw != 1) bits[i] = next(bits[i], draw == 2, infinity);
}

}  // namespace

#define KL_LAUNCH(kernel, blocks, stream, ...) kernel<<<blocks, kThreads, 0, stream>>>(__VA_ARGS__)

void to_bf16(bf16* y, const float* x, int64_t size, cudaStream_t stream) {
  KL_LAUNCH(to_bf16_kernel, blocks_for(size, kThreads), stream, y, x, size);
}

void gather(bf16* e, const bf16* table, const int32_t* tokens, int64_t N, int64_t C, cudaStream_t stream) {
  KL_LAUNCH(gather_kernel, blocks_for(N * C, kThreads), stream, e, table, tokens, N, C);
}

void gather_backward(float* dtable, const bf16* de, TokenPositions where, int64_t V, int64_t C,
                     cudaStream_t stream) {
  KL_LAUNCH(gather_backward_kernel, static_cast<unsigned>(V), stream, dtable, de, where, C);
}

void residual_blend(bf16* y, const bf16* x, const bf16* x0, const float* lambda, const float* mu,
                    int64_t size, cudaStream_t stream) {
  KL_LAUNCH(residual_blend_kernel, blocks_for(size, kThreads), stream, y, x, x0, lambda, mu, size);
}

void residual_blend_backward(bf16* dx, float* dx0, float* dlambda, float* dmu, const bf16* x,
                             const bf16* x0, const float* lambda, const float* mu, int64_t size,
                             double* partial, cudaStream_t stream) {
  KL_LAUNCH(residual_blend_backward_kernel, kBlendBlocks, stream, dx, dx0, x, x0, lambda, mu, size, partial);
  KL_LAUNCH(blend_sums_kernel, 1, stream, dlambda, dmu, partial, kBlendBlocks);
}

void add(bf16* y, const bf16* x, int64_t size, cudaStream_t stream) {
  KL_LAUNCH(add_kernel, blocks_for(size, kThreads), stream, y, x, size);
}

void add_into(bf16* y, const float* a, const bf16* b, int64_t size, cudaStream_t stream) {
  KL_LAUNCH(add_into_kernel, blocks_for(size, kThreads), stream, y, a, b, size);
}

void rotary_norm(bf16* x, float* r, const float* cosine, const float* sine, int64_t N, int64_t T,
                 int64_t H, int64_t D, float eps, cudaStream_t stream) {
  KL_LAUNCH(rotary_norm_kernel, blocks_for(N * H, kWarpsPerBlock), stream, x, r, cosine, sine, N, T, H, D, eps);
}

void rotary_norm_backward(bf16* dx, const bf16* y, const float* r, const float* cosine,
                          const float* sine, int64_t N, int64_t T, int64_t H, int64_t D,
                          cudaStream_t stream) {
  KL_LAUNCH(rotary_norm_backward_kernel, blocks_for(N * H, kWarpsPerBlock), stream, dx, y, r, cosine, sine,
            N, T, H, D);
}

void value_gate(bf16* v, float* g, const bf16* n1, const bf16* w, const bf16* table,
                const int32_t* tokens, int64_t N, int64_t C, int64_t K, int64_t D, cudaStream_t stream) {
  KL_LAUNCH(value_gate_kernel, blocks_for(N * K, kWarpsPerBlock), stream, v, g, n1, w, table, tokens, N, C, K, D);
}

void value_gate_backward(float* da, bf16* dn1, const bf16* dv, const float* g, const bf16* w,
                         const bf16* table, const int32_t* tokens, int64_t N, int64_t C, int64_t K,
                         int64_t D, cudaStream_t stream) {
  KL_LAUNCH(gate_gradient_kernel, blocks_for(N * K, kWarpsPerBlock), stream, da, dv, g, table, tokens, N, K, D);
  KL_LAUNCH(gate_input_gradient_kernel, blocks_for(N * kGateColumns, kThreads), stream, dn1, da, w, N, C, K);
}

void value_table_backward(float* dtable, const bf16* dv, const float* g, TokenPositions where,
                          int64_t V, int64_t K, int64_t D, cudaStream_t stream) {
  KL_LAUNCH(value_table_backward_kernel, static_cast<unsigned>(V), stream, dtable, dv, g, where, K, D);
}

void gate_weight_backward(float* dw, const float* da, const bf16* n1, int64_t N, int64_t C, int64_t K,
                          float* partial, cudaStream_t stream) {
  KL_LAUNCH(gate_weight_partial_kernel, kGateBlocks, stream, partial, da, n1, N, C, K);
  KL_LAUNCH(gate_weight_sums_kernel, blocks_for(K * kGateColumns, kThreads), stream, dw, partial,
            K * kGateColumns);
}

void masked_softmax(bf16* p, const float* s, int64_t rows, int64_t T, int64_t window, float scale,
                    cudaStream_t stream) {
  KL_LAUNCH(masked_softmax_kernel, static_cast<unsigned>(rows), stream, p, s, T, window, scale);
}

void masked_softmax_backward(bf16* ds, const bf16* p, const float* dp, int64_t rows, int64_t T,
                             int64_t window, cudaStream_t stream) {
  KL_LAUNCH(masked_softmax_backward_kernel, static_cast<unsigned>(rows), stream, ds, p, dp, T, window);
}

void relu_squared(bf16* a, const bf16* h, int64_t size, cudaStream_t stream) {
  KL_LAUNCH(relu_squared_kernel, blocks_for(size, kThreads), stream, a, h, size);
}

void relu_squared_backward(bf16* dh, const bf16* da, const bf16* h, int64_t size, cudaStream_t stream) {
  KL_LAUNCH(relu_squared_backward_kernel, blocks_for(size, kThreads), stream, dh, da, h, size);
}

void mean_loss(double* loss, const float* nll, const int32_t* targets, int64_t N, double share,
               cudaStream_t stream) {
  KL_LAUNCH(mean_loss_kernel, 1, stream, loss, nll, targets, N, share);
}

void gradient_norm(double* norm, const float* g, int64_t size, double* partial, cudaStream_t stream) {
  KL_LAUNCH(squares_kernel, kNormBlocks, stream, partial, g, size);
  KL_LAUNCH(root_of_sum_kernel, 1, stream, norm, partial, kNormBlocks);
}

void adamw(float* w, bf16* copy, const float* g, float* m, float* v, int64_t size,
           const AdamScalars* scalars, const double* loss, double limit, cudaStream_t stream) {
  KL_LAUNCH(adamw_kernel, blocks_for(size, kThreads), stream, w, copy, g, m, v, size, scalars, loss, limit);
}

void move_last_place(bf16* values, int64_t size, Move move, cudaStream_t stream) {
  KL_LAUNCH(move_last_place_kernel<bf16>, blocks_for(size, kThreads), stream, values, size, move, 0x7f80);
}
void move_last_place(float* values, int64_t size, Move move, cudaStream_t stream) {
  KL_LAUNCH(move_last_place_kernel<float>, blocks_for(size, kThreads), stream, values, size, move, 0x7f800000u);
}
void move_last_place(double* values, int64_t size, Move move, cudaStream_t stream) {
  KL_LAUNCH(move_last_place_kernel<double>, blocks_for(size, kThreads), stream, values, size, move,
            0x7ff0000000000000ull);
}

}  // namespace kl::trainer::cuda
