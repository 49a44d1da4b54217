#include <lab/services/services.hpp>

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <vector>

// Of OpenBLAS: takes one of the buffers that are kept for the life of the process, or maps another.
extern "C" void* blas_memory_alloc(int position);
extern "C" void blas_memory_free(void* buffer);

namespace kl {
namespace {

kl_result no_sgemm(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                   const float*, int64_t, float, float*, int64_t) {
  return {KL_UNSUPPORTED, "sgemm is not a service of this target: list it in spec.toml"};
}

bool is_operation(char trans) { return trans == 'N' || trans == 'T'; }
bool is_length(int64_t n) { return n >= 0 && n <= std::numeric_limits<blasint>::max(); }
CBLAS_TRANSPOSE operation(char trans) { return trans == 'T' ? CblasTrans : CblasNoTrans; }
blasint narrow(int64_t n) { return static_cast<blasint>(n); }

// OpenBLAS ends or warns about what it is wrongly asked; a kernel is told.
kl_result sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (!is_operation(ta) || !is_operation(tb))
    return {KL_BAD_ARGUMENT, "sgemm: trans is 'N' or 'T'"};
  for (const int64_t length : {m, n, k, lda, ldb, ldc})
    if (!is_length(length))
      return {KL_BAD_ARGUMENT, "sgemm: a length is negative or over 2^31 - 1"};
  if (lda < std::max<int64_t>(1, ta == 'T' ? m : k) ||
      ldb < std::max<int64_t>(1, tb == 'T' ? k : n) || ldc < std::max<int64_t>(1, n))
    return {KL_BAD_ARGUMENT, "sgemm: rows are closer together than they are long"};
  cblas_sgemm(CblasRowMajor, operation(ta), operation(tb), narrow(m), narrow(n), narrow(k), alpha,
              a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
  return {KL_OK, nullptr};
}

constexpr kl_services kNone{sizeof(kl_services), 0, no_sgemm};
constexpr kl_services kSgemm{sizeof(kl_services), 0, sgemm};

}  // namespace

const kl_services& services(std::span<const std::string> listed) {
  return std::find(listed.begin(), listed.end(), "sgemm") == listed.end() ? kNone : kSgemm;
}

void make_services_ready(int threads) {
  openblas_set_num_threads(threads);  // a buffer for each thread of a product
  std::vector<void*> buffers;         // and one for each product that runs at the same time
  for (int i = 0; i < threads; ++i) buffers.push_back(blas_memory_alloc(0));
  for (void* buffer : buffers) blas_memory_free(buffer);
}

}  // namespace kl
