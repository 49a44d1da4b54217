// Squared ReLU in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;

// Not max(h, 0): what is not a number stays so.
template <class R>
R relu(const R& h) {
  return h < R(0.0) ? R(0.0) : h;
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool forward = table.operation == KL_FORWARD;
  if (!forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (forward ? 1 : 2) || table.output_count != 1) return -1;
  if (table.inputs[0].ndim != 2) return -1;
  const int64_t size = table.inputs[0].size();
  for (int64_t i = 0; i < size; ++i) {
    const R h = relu(call.in(forward ? 0 : 1, i));
    call.out(0, i, forward ? h * h : R(2.0) * h * call.in(0, i));
  }
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& first = problem.inputs[0];
  if (first.ndim != 2) return -1;
  const double elements = static_cast<double>(first.shape[0]) * static_cast<double>(first.shape[1]);
  const double bytes = elements * first.dtype.bits / 8.0;
  if (problem.operation == KL_FORWARD)
    cost = {bytes, bytes, 2 * elements};
  else if (problem.operation == KL_BACKWARD)
    cost = {2 * bytes, bytes, 3 * elements};
  else
    return -1;
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("activation_pointwise", evaluate, ideal_cost);
