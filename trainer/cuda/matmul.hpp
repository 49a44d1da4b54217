// Matrix products on the device: cuBLASLt with bf16 factors and fp32 sums, one row-major spelling.
#pragma once

#include <trainer/cuda/cublaslt.hpp>
#include <trainer/cuda/kernels.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

namespace kl::trainer::cuda {

// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C, `batch` times; strides in elements between
// one batch's matrix and the next's.
struct Product {
  char trans_a = 'N', trans_b = 'N';
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

class Matmul {
 public:
  static Result<std::unique_ptr<Matmul>> open();
  ~Matmul();
  static constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;
  void use(cudaStream_t stream, void* workspace) {
    stream_ = stream;
    workspace_ = workspace;
  }

  void product(const Product& p, float alpha, const bf16* a, const bf16* b, float beta, bf16* c) {
    run(p, CUDA_R_16BF, alpha, a, b, beta, c);
  }
  void product(const Product& p, float alpha, const bf16* a, const bf16* b, float beta, float* c) {
    run(p, CUDA_R_32F, alpha, a, b, beta, c);
  }
  // y[n,out] (+)= x[n,in] * w[out,in]^T
  void matmul(bf16* y, const bf16* x, const bf16* w, int64_t n, int64_t in, int64_t out, float beta = 0) {
    product({'N', 'T', n, out, in, in, in, out}, 1, x, w, beta, y);
  }
  // dx[n,in] (+)= dy[n,out] * w
  void matmul_dx(bf16* dx, const bf16* dy, const bf16* w, int64_t n, int64_t in, int64_t out, float beta = 0) {
    product({'N', 'N', n, in, out, out, in, in}, 1, dy, w, beta, dx);
  }
  // dw[out,in] += dy^T * x, in fp32
  void matmul_dw(float* dw, const bf16* dy, const bf16* x, int64_t n, int64_t in, int64_t out) {
    product({'T', 'N', out, in, n, out, in, in}, 1, dy, x, 1, dw);
  }

  Outcome fault() const;  // the first product that failed
  std::string version() const;

 private:
  // One shape, described and with its algorithm chosen: what cuBLASLt's heuristic puts first.
  struct Choice {
    explicit Choice(const CublasLt& library) : lt(library) {}
    Choice(const Choice&) = delete;
    Choice& operator=(const Choice&) = delete;
    ~Choice();
    const CublasLt& lt;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };
  using Key = std::tuple<char, char, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, int64_t, cudaDataType_t>;
  explicit Matmul(const CublasLt& lt) : lt_(lt) {}
  void run(const Product& p, cudaDataType_t type, float alpha, const bf16* a, const bf16* b, float beta, void* c);
  const Choice* choose(const Product& p, cudaDataType_t type);
  bool note(cublasStatus_t status, const Product& p);

  const CublasLt& lt_;
  cublasLtHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, std::unique_ptr<Choice>> choices_;
  std::optional<std::string> fault_;
};

}  // namespace kl::trainer::cuda
