// The plain sums: one element after the other, in double.
#include <kernel_lab/kernel.hpp>

namespace {

enum { kSum = 0, kSumOfSquares = 1 };

struct Plan {
  int32_t operation;
  int64_t rows, columns;
};

kl_result accepts(const kl_problem* p) {
  const DLTensor& x = p->inputs[0];
  if (!kl::is_f32(x) || !kl::is_contiguous(x)) return kl::unsupported("x must be contiguous f32");
  return x.ndim == 2 ? kl::ok() : kl::bad_argument("x must be [N,C]");
}

size_t no_bytes(const kl_problem*) { return 0; }

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, Plan{p->operation, p->inputs[0].shape[0], p->inputs[0].shape[1]});
  return kl::ok();
}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const Plan& p = kl::plan_as<Plan>(plan);
  const float* x = kl::data<const float>(call->inputs[0]);
  double all = 0;
  for (int64_t n = 0; n < p.rows; ++n, x += p.columns) {
    double row = 0;
    for (int64_t c = 0; c < p.columns; ++c) row += p.operation == kSum ? x[c] : double{x[c]} * x[c];
    if (kl::is_present(call->outputs[0])) kl::data<double>(call->outputs[0])[n] = row;
    all += row;
  }
  *kl::data<double>(call->outputs[1]) = all;
  return kl::ok();
}

}  // namespace

KL_EXPORT_KERNEL("reduce", accepts, no_bytes, no_bytes, prepare, run);
