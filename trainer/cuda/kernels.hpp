// The plain CUDA kernels of the step: one launch each, asynchronous on the stream, no atomics, so
// that the same inputs give the same bits. Activations bf16, sums fp32 or double. N = B*T rows; a
// row n is at position n % T.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace kl::trainer::cuda {

using bf16 = __nv_bfloat16;

// The inverse of a micro-batch's tokens: token v stands at positions[begin[v] .. begin[v+1]), in
// ascending order. A gradient of a table is then a sum per row, in a fixed order.
struct TokenPositions {
  const int32_t* begin;      // [V + 1]
  const int32_t* positions;  // [N]
};

// What a step's kernels read from device memory because it changes from step to step.
struct AdamScalars {
  float beta1, beta2, rate, inverse_root_correction2, eps;
};
struct StepScalars {
  uint64_t step;        // distinguishes the steps in which a seam is perturbed
  AdamScalars adam[6];  // by Group
};

void to_bf16(bf16* y, const float* x, int64_t size, cudaStream_t stream);

// e[N,C] = table[token]
void gather(bf16* e, const bf16* table, const int32_t* tokens, int64_t N, int64_t C, cudaStream_t stream);
// dtable[V,C] += sum of de[n] over the positions of each token
void gather_backward(float* dtable, const bf16* de, TokenPositions where, int64_t V, int64_t C,
                     cudaStream_t stream);

// y = lambda * x + mu * x0
void residual_blend(bf16* y, const bf16* x, const bf16* x0, const float* lambda, const float* mu,
                    int64_t size, cudaStream_t stream);
// dx: in dy, out lambda * dy; dx0[fp32] += mu * dy; dlambda += dy . x, dmu += dy . x0
constexpr int64_t kBlendBlocks = 1024;  // partial: 2 * kBlendBlocks doubles
void residual_blend_backward(bf16* dx, float* dx0, float* dlambda, float* dmu, const bf16* x,
                             const bf16* x0, const float* lambda, const float* mu, int64_t size,
                             double* partial, cudaStream_t stream);
void add(bf16* y, const bf16* x, int64_t size, cudaStream_t stream);
// y = a + b
void add_into(bf16* y, const float* a, const bf16* b, int64_t size, cudaStream_t stream);

// In place on x[N,H,D]: y1 = x1 cos + x2 sin, y2 = x2 cos - x1 sin, then rmsnorm over D; r[N,H]
// keeps the reciprocal rms. Tables [T, D/2].
void rotary_norm(bf16* x, float* r, const float* cosine, const float* sine, int64_t N, int64_t T,
                 int64_t H, int64_t D, float eps, cudaStream_t stream);
// dx: in the gradient of y, out that of x.
void rotary_norm_backward(bf16* dx, const bf16* y, const float* r, const float* cosine,
                          const float* sine, int64_t N, int64_t T, int64_t H, int64_t D,
                          cudaStream_t stream);

constexpr int64_t kGateColumns = 32;  // of n1 that the gates read
// g[N,K] = 2 sigmoid(n1[n,:32] . w[k]); v[N,K,D] += g * table[token]
void value_gate(bf16* v, float* g, const bf16* n1, const bf16* w, const bf16* table,
                const int32_t* tokens, int64_t N, int64_t C, int64_t K, int64_t D, cudaStream_t stream);
// da[N,K]: gradient before the sigmoid; dn1[:, :32] += da . w
void value_gate_backward(float* da, bf16* dn1, const bf16* dv, const float* g, const bf16* w,
                         const bf16* table, const int32_t* tokens, int64_t N, int64_t C, int64_t K,
                         int64_t D, cudaStream_t stream);
// dtable[V,K,D] += sum of g * dv over the positions of each token
void value_table_backward(float* dtable, const bf16* dv, const float* g, TokenPositions where,
                          int64_t V, int64_t K, int64_t D, cudaStream_t stream);
// dw[K,32] += da^T . n1[:, :32]
constexpr int64_t kGateBlocks = 256;  // partial: kGateBlocks * K * 32 floats
void gate_weight_backward(float* dw, const float* da, const bf16* n1, int64_t N, int64_t C, int64_t K,
                          float* partial, cudaStream_t stream);

// p[rows,T] = softmax of scale * s over keys j with t - window <= j <= t, 0 elsewhere; row r is at
// position t = r % T.
void masked_softmax(bf16* p, const float* s, int64_t rows, int64_t T, int64_t window, float scale,
                    cudaStream_t stream);
// ds = p * (dp - sum(dp * p))
void masked_softmax_backward(bf16* ds, const bf16* p, const float* dp, int64_t rows, int64_t T,
                             int64_t window, cudaStream_t stream);

// a = relu(h)^2
void relu_squared(bf16* a, const bf16* h, int64_t size, cudaStream_t stream);
void relu_squared_backward(bf16* dh, const bf16* da, const bf16* h, int64_t size, cudaStream_t stream);

// loss += share * sum(nll) / number of targets that count
void mean_loss(double* loss, const float* nll, const int32_t* targets, int64_t N, double share,
               cudaStream_t stream);
// norm = root of the sum of squares
constexpr int64_t kNormBlocks = 1024;  // partial: kNormBlocks doubles
void gradient_norm(double* norm, const float* g, int64_t size, double* partial, cudaStream_t stream);
// AdamW of one tensor, and its bf16 copy; nothing where the loss is not finite or above `limit`.
void adamw(float* w, bf16* copy, const float* g, float* m, float* v, int64_t size,
           const AdamScalars* scalars, const double* loss, double limit, cudaStream_t stream);

// Moves every element by -1, 0 or +1 unit in the last place, drawn from seed, step and call.
struct Move {
  uint64_t seed, call;
  const uint64_t* step;
};
void move_last_place(bf16* values, int64_t size, Move move, cudaStream_t stream);
void move_last_place(float* values, int64_t size, Move move, cudaStream_t stream);
void move_last_place(double* values, int64_t size, Move move, cudaStream_t stream);

}  // namespace kl::trainer::cuda
