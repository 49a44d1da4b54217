// Matrix products: OpenBLAS for float and double, one row-major spelling.
#pragma once

#include <cstdint>
#include <string>

namespace kl::trainer {

// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C; `trans` is 'N' or 'T'.
void gemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc);

// y[n,out] = x[n,in] * w[out,in]^T
template <class R>
void matmul(R* y, const R* x, const R* w, int64_t n, int64_t in, int64_t out, R beta = 0) {
  gemm('N', 'T', n, out, in, R(1), x, in, w, in, beta, y, out);
}
// dx[n,in] (+)= dy[n,out] * w
template <class R>
void matmul_dx(R* dx, const R* dy, const R* w, int64_t n, int64_t in, int64_t out, R beta = 0) {
  gemm('N', 'N', n, in, out, R(1), dy, out, w, in, beta, dx, in);
}
// dw[out,in] += dy^T * x
template <class R>
void matmul_dw(R* dw, const R* dy, const R* x, int64_t n, int64_t in, int64_t out) {
  gemm('T', 'N', out, in, n, R(1), dy, out, x, in, R(1), dw, in);
}

void set_threads(int threads);  // of OpenMP and OpenBLAS alike
std::string blas_version();     // "openblas 0.3.21 Zen openmp"

}  // namespace kl::trainer
