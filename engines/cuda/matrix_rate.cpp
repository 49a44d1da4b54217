#include <engines/cuda/matrix_rate.hpp>

#include <engines/cuda/toolkit.hpp>

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace kl::cuda {
namespace {

#define KL_LT_ENTRIES(X)                                                                            \
  X(cublasLtCreate) X(cublasLtDestroy) X(cublasLtMatmul) X(cublasLtMatmulDescCreate)                \
  X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate)      \
  X(cublasLtMatrixLayoutDestroy) X(cublasLtMatmulPreferenceCreate)                                  \
  X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)                        \
  X(cublasLtMatmulAlgoGetHeuristic)

struct CublasLt {
#define KL_LT_MEMBER(name) decltype(&::name) name = nullptr;
  KL_LT_ENTRIES(KL_LT_MEMBER)
#undef KL_LT_MEMBER

  // Empty, or what is missing.
  std::string load() {
    void* library = open_library(fmt::format("libcublasLt.so.{}", CUDA_VERSION / 1000));
    if (library == nullptr) library = open_library("libcublasLt.so");
    if (library == nullptr) return "libcublasLt.so does not load";
#define KL_LT_LOAD(name)                                                           \
  name = reinterpret_cast<decltype(name)>(::dlsym(library, #name));                \
  if (name == nullptr) return "libcublasLt.so has no " #name;
    KL_LT_ENTRIES(KL_LT_LOAD)
#undef KL_LT_LOAD
    return {};
  }
};

struct Product {
  cudaDataType_t type;
  cublasComputeType_t compute;
  size_t element_bytes;
};

class Multiplier {
 public:
  Multiplier(const CublasLt& lt, Context& context, Stopwatch& stopwatch, CUstream stream, int64_t size)
      : lt_(lt), context_(context), stopwatch_(stopwatch), stream_(stream), size_(static_cast<uint64_t>(size)) {}
  ~Multiplier() {
    if (layout_ != nullptr) lt_.cublasLtMatrixLayoutDestroy(layout_);
    if (description_ != nullptr) lt_.cublasLtMatmulDescDestroy(description_);
    if (preference_ != nullptr) lt_.cublasLtMatmulPreferenceDestroy(preference_);
    if (handle_ != nullptr) lt_.cublasLtDestroy(handle_);
  }
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

  // TFLOP/s, the best of a few algorithms' medians; or why not.
  std::optional<double> rate(const Product& product, int repeats, std::string& why) {
    if (!set_up(product, why)) return std::nullopt;
    constexpr int kAlgorithms = 4;
    cublasLtMatmulHeuristicResult_t found[kAlgorithms];
    int count = 0;
    if (lt_.cublasLtMatmulAlgoGetHeuristic(handle_, description_, layout_, layout_, layout_, layout_, preference_,
                                           kAlgorithms, found, &count) != CUBLAS_STATUS_SUCCESS || count == 0) {
      why = "cuBLASLt offers no algorithm";
      return std::nullopt;
    }
    std::optional<int64_t> best_ns;
    for (int i = 0; i < count; ++i)
      if (const auto ns = median_ns(found[i].algo, repeats); ns && (!best_ns || *ns < *best_ns)) best_ns = ns;
    if (!best_ns) {
      why = "cuBLASLt's products failed";
      return std::nullopt;
    }
    const auto n = static_cast<double>(size_);
    return 2 * n * n * n / (static_cast<double>(*best_ns) * 1e3);
  }

 private:
  bool set_up(const Product& product, std::string& why) {
    const size_t bytes = size_ * size_ * product.element_bytes;
    const Driver& driver = context_.driver();
    for (DeviceMemory* memory : {&a_, &b_, &c_})
      if (const CUresult error = memory->allocate(driver, bytes); error != CUDA_SUCCESS) {
        why = describe(error);
        return false;
      }
    if (const CUresult error = workspace_.allocate(driver, kWorkspaceBytes); error != CUDA_SUCCESS) {
      why = describe(error);
      return false;
    }
    // Random values in ±[0.5, 1): equal ones toggle fewer wires, and at the power limit that is faster.
    const bool half = product.element_bytes == 2;
    const uint32_t base = half ? 0x3F003F00u : 0x3F000000u, mask = half ? 0x807F807Fu : 0x807FFFFFu;
    for (DeviceMemory* memory : {&a_, &b_, &c_})
      context_.launch("kl_noise", context_.blocks_for(bytes / 4), Context::kThreads, stream_, memory->at(),
                      static_cast<uint64_t>(bytes / 4), base, mask);
    const size_t workspace = kWorkspaceBytes;
    const bool made =
        lt_.cublasLtCreate(&handle_) == CUBLAS_STATUS_SUCCESS &&
        lt_.cublasLtMatmulDescCreate(&description_, product.compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
        lt_.cublasLtMatrixLayoutCreate(&layout_, product.type, size_, size_, static_cast<int64_t>(size_)) ==
            CUBLAS_STATUS_SUCCESS &&
        lt_.cublasLtMatmulPreferenceCreate(&preference_) == CUBLAS_STATUS_SUCCESS &&
        lt_.cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                 sizeof workspace) == CUBLAS_STATUS_SUCCESS;
    if (!made) why = "cuBLASLt does not start";
    return made;
  }

  std::optional<int64_t> median_ns(const cublasLtMatmulAlgo_t& algorithm, int repeats) {
    const float one = 1, zero = 0;
    std::vector<int64_t> samples;
    for (int i = 0; i < repeats; ++i) {
      if (stopwatch_.start() != CUDA_SUCCESS) return std::nullopt;
      const cublasStatus_t done = lt_.cublasLtMatmul(
          handle_, description_, &one, reinterpret_cast<void*>(a_.at()), layout_, reinterpret_cast<void*>(b_.at()),
          layout_, &zero, reinterpret_cast<void*>(c_.at()), layout_, reinterpret_cast<void*>(c_.at()), layout_,
          &algorithm, reinterpret_cast<void*>(workspace_.at()), workspace_.bytes(),
          reinterpret_cast<cudaStream_t>(stream_));
      int64_t ns = 0;
      if (stopwatch_.stop() != CUDA_SUCCESS || done != CUBLAS_STATUS_SUCCESS || stopwatch_.wait() != CUDA_SUCCESS ||
          stopwatch_.elapsed(ns) != CUDA_SUCCESS)
        return std::nullopt;
      if (i > 0) samples.push_back(ns);  // the first loads code
    }
    std::nth_element(samples.begin(), samples.begin() + static_cast<int64_t>(samples.size()) / 2, samples.end());
    return samples[samples.size() / 2];
  }

  static constexpr size_t kWorkspaceBytes = 64 << 20;
  const CublasLt& lt_;
  Context& context_;
  Stopwatch& stopwatch_;
  CUstream stream_;
  uint64_t size_;
  DeviceMemory a_, b_, c_, workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

void measure_matrix_rates(Context& context, Stopwatch& stopwatch, CUstream stream, bool quick,
                          DeviceFigures& figures) {
  CublasLt lt;
  figures.gemm_unknown = lt.load();
  if (!figures.gemm_unknown.empty()) return;
  constexpr int64_t kSize = 8192;
  const int repeats = quick ? 5 : 15;
  const auto rate = [&](const Product& product) {
    return Multiplier(lt, context, stopwatch, stream, kSize).rate(product, repeats, figures.gemm_unknown);
  };
  figures.gemm_shape = fmt::format("{0} x {0} x {0}", kSize);
  figures.bf16_tflop_per_s = rate({CUDA_R_16BF, CUBLAS_COMPUTE_32F, 2});
  figures.tf32_tflop_per_s = rate({CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4});
  figures.fp32_tflop_per_s = rate({CUDA_R_32F, CUBLAS_COMPUTE_32F_PEDANTIC, 4});
}

}  // namespace kl::cuda
