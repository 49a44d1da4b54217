// Matrix products on all threads at once and on each of them alone, large enough that OpenBLAS
// takes its buffers, before y = 2 x.
#include "kernel_under_test.hpp"

#include <omp.h>

#include <algorithm>

constexpr int64_t kSize = 256;
constexpr int kMostThreads = 8;
static float zeros[kSize * kSize], products[kMostThreads][kSize * kSize];

struct Plan {
  decltype(kl_services::sgemm) sgemm;
  int32_t threads;
};

static kl_result prepare(const kl_problem* p, const kl_services* services, kl_plan* plan) {
  kl::store(plan, Plan{services->sgemm, std::min(p->threads, kMostThreads)});
  return kl::ok();
}

static kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const auto multiply = [&p](float* c) {
    return p.sgemm('N', 'T', kSize, kSize, kSize, 1, zeros, kSize, zeros, kSize, 0, c, kSize).code;
  };
  int32_t code = multiply(products[0]);
#pragma omp parallel num_threads(p.threads) reduction(max : code)
  code = std::max(code, multiply(products[omp_get_thread_num()]));
  if (code != KL_OK) return {code, "no product"};
  const int64_t n = test_kernel::count(call->inputs[0]);
  const float one = 1;
  return p.sgemm('N', 'N', n, 1, 1, 2, kl::data<const float>(call->inputs[0]), 1, &one, 1, 0,
                 kl::data<float>(call->outputs[0]), 1);
}

KL_EXPORT_KERNEL("add_one", test_kernel::accept_all, test_kernel::no_bytes, test_kernel::no_bytes,
                 prepare, run);
