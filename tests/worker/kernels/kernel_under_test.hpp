// What the kernels of these tests share: y = x + 1 on one float tensor, and the export of it with
// one function replaced. Each kernel file does one thing to its host.
#pragma once

#include <kernel_lab/kernel.hpp>

namespace test_kernel {

inline int64_t count(const DLTensor& t) {
  int64_t n = 1;
  for (int i = 0; i < t.ndim; ++i) n *= t.shape[i];
  return n;
}

inline kl_result accept_all(const kl_problem*) { return kl::ok(); }
inline size_t no_bytes(const kl_problem*) { return 0; }
inline kl_result prepare_nothing(const kl_problem*, const kl_services*, kl_plan*) { return kl::ok(); }

inline void add_one(const kl_call* call) {
  const float* x = kl::data<const float>(call->inputs[0]);
  float* y = kl::data<float>(call->outputs[0]);
  for (int64_t i = 0; i < count(call->inputs[0]); ++i) y[i] = x[i] + 1;
}

}  // namespace test_kernel

#define EXPORT_RUN(RUN)                                                              \
  KL_EXPORT_KERNEL("add_one", test_kernel::accept_all, test_kernel::no_bytes,        \
                   test_kernel::no_bytes, test_kernel::prepare_nothing, RUN)
