// The residual add in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.operation != KL_FORWARD || table.input_count != 2 || table.output_count != 1) return -1;
  if (table.inputs[0].ndim != 2) return -1;
  const int64_t size = table.inputs[0].size();
  for (int64_t i = 0; i < size; ++i) call.out(0, i, call.in(0, i) + call.in(1, i));
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& first = problem.inputs[0];
  if (problem.operation != KL_FORWARD || first.ndim != 2) return -1;
  const double elements = static_cast<double>(first.shape[0]) * static_cast<double>(first.shape[1]);
  const double bytes = elements * first.dtype.bits / 8.0;
  cost = {2 * bytes, bytes, elements};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("launch_fusion", evaluate, ideal_cost);
