#include <trainer/cuda/matmul.hpp>

#include <fmt/format.h>

namespace kl::trainer::cuda {

Matmul::Choice::~Choice() {
  for (const cublasLtMatrixLayout_t layout : {a, b, c})
    if (layout != nullptr) lt.layout_destroy(layout);
  if (desc != nullptr) lt.desc_destroy(desc);
}

Result<std::unique_ptr<Matmul>> Matmul::open() {
  KL_TRY(const CublasLt* lt, open_cublaslt());
  std::unique_ptr<Matmul> matmul(new Matmul(*lt));
  if (const cublasStatus_t status = lt->create(&matmul->handle_); status != CUBLAS_STATUS_SUCCESS)
    return make_error(Status::missing_runtime,
                      lt->file + " does not start: " + lt->status_name(status),
                      "use a cuBLASLt that fits the driver (nvidia-smi names the driver's CUDA version)");
  return matmul;
}

Matmul::~Matmul() {
  choices_.clear();
  if (handle_ != nullptr) lt_.destroy(handle_);
}

// cuBLASLt reads matrices by columns, so that a row-major C = A B is its C^T = B^T A^T: our B is
// its first factor, and a row-major [r,c] with leading dimension l is its [c,r] with the same l.
const Matmul::Choice* Matmul::choose(const Product& p, cudaDataType_t type) {
  const Key key{p.trans_a, p.trans_b, p.m, p.n, p.k, p.lda, p.ldb, p.ldc, p.batch, p.stride_a, p.stride_b, p.stride_c, type};
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second.get();
  auto choice = std::make_unique<Choice>(lt_);
  const cublasOperation_t first = p.trans_b == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T;
  const cublasOperation_t second = p.trans_a == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T;
  const auto layout = [&](cublasLtMatrixLayout_t& into, cudaDataType_t element, int64_t rows, int64_t columns,
                          int64_t leading, int64_t stride) {
    const auto batch = static_cast<int32_t>(p.batch);
    return note(lt_.layout_create(&into, element, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), leading), p) &&
           note(lt_.layout_set(into, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)), p) &&
           note(lt_.layout_set(into, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)), p);
  };
  cublasLtMatmulPreference_t preference = nullptr;
  const auto workspace = static_cast<uint64_t>(kWorkspaceBytes);
  const uint32_t alignment = 16;
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  bool fine =
      note(lt_.desc_create(&choice->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), p) &&
      note(lt_.desc_set(choice->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first)), p) &&
      note(lt_.desc_set(choice->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second)), p) &&
      layout(choice->a, CUDA_R_16BF, p.trans_b == 'N' ? p.n : p.k, p.trans_b == 'N' ? p.k : p.n, p.ldb, p.stride_b) &&
      layout(choice->b, CUDA_R_16BF, p.trans_a == 'N' ? p.k : p.m, p.trans_a == 'N' ? p.m : p.k, p.lda, p.stride_a) &&
      layout(choice->c, type, p.n, p.m, p.ldc, p.stride_c) && note(lt_.preference_create(&preference), p) &&
      note(lt_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)), p);
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    fine = fine && note(lt_.preference_set(preference, attribute, &alignment, sizeof(alignment)), p);
  fine = fine && note(lt_.heuristic(handle_, choice->desc, choice->a, choice->b, choice->c, choice->c, preference, 1,
                                    &best, &found), p) &&
         note(found > 0 ? best.state : CUBLAS_STATUS_NOT_SUPPORTED, p);
  if (preference != nullptr) lt_.preference_destroy(preference);
  if (!fine) return nullptr;
  choice->algorithm = best.algo;
  return (choices_[key] = std::move(choice)).get();
}

void Matmul::run(const Product& p, cudaDataType_t type, float alpha, const bf16* a, const bf16* b, float beta,
                 void* c) {
  const Choice* choice = choose(p, type);
  if (choice == nullptr) return;
  note(lt_.matmul(handle_, choice->desc, &alpha, b, choice->a, a, choice->b, &beta, c, choice->c, c, choice->c,
                  &choice->algorithm, workspace_, static_cast<size_t>(kWorkspaceBytes), stream_), p);
}

bool Matmul::note(cublasStatus_t status, const Product& p) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  if (!fault_)
    fault_ = fmt::format("cuBLASLt, product [{},{}] x [{},{}], {}{}, {} times: {}", p.m, p.k, p.k, p.n, p.trans_a,
                         p.trans_b, p.batch, lt_.status_name(status));
  return false;
}

Outcome Matmul::fault() const {
  if (!fault_) return {};
  return make_error(Status::execution_failed, *fault_, "choose sizes that are multiples of 8, or a newer cuBLASLt");
}

std::string Matmul::version() const {
  const size_t version = lt_.version();
  return fmt::format("cublasLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace kl::trainer::cuda
