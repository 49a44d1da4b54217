#include <trainer/blas.hpp>

#include <trainer/range_log.hpp>

#include <cblas.h>
#include <omp.h>

#include <sstream>

namespace kl::trainer {
namespace {

CBLAS_TRANSPOSE operation(char trans) { return trans == 'T' ? CblasTrans : CblasNoTrans; }
blasint narrow(int64_t n) { return static_cast<blasint>(n); }

}  // namespace

void gemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  const RangeScope range(m, n, k);
  cblas_sgemm(CblasRowMajor, operation(ta), operation(tb), narrow(m), narrow(n), narrow(k), alpha, a,
              narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

void gemm(char ta, char tb, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  cblas_dgemm(CblasRowMajor, operation(ta), operation(tb), narrow(m), narrow(n), narrow(k), alpha, a,
              narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

void set_threads(int threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  openblas_set_num_threads(threads);
}

std::string blas_version() {
  std::istringstream config(openblas_get_config());
  std::string name, version;
  config >> name >> version;
  const char* const threading[] = {"sequential", "pthreads", "openmp"};
  const int parallel = openblas_get_parallel();
  return "openblas " + version + " " + openblas_get_corename() + " " +
         threading[parallel >= 0 && parallel <= 2 ? parallel : 0];
}

}  // namespace kl::trainer
