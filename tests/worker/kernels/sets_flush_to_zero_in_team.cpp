#include <omp.h>
#include <xmmintrin.h>

#include "kernel_under_test.hpp"

static kl_result run(const kl_plan*, const kl_call* call, kl_stream) {
  test_kernel::add_one(call);
#pragma omp parallel
  if (omp_get_thread_num() == 1) _mm_setcsr(_mm_getcsr() | 0x8000);
  return kl::ok();
}
EXPORT_RUN(run);
