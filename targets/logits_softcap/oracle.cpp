// The softcap in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::value_of;

// tanh(z/s): exactly 1 or -1 at an infinity, whose terms would not be numbers.
template <class R>
R capped(const R& z, double s) {
  const double v = value_of(z);
  if (std::isinf(v)) return R(v > 0 ? 1.0 : -1.0);
  return kl::oracle::tanh(z / R(s));
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool forward = table.operation == KL_FORWARD;
  if (!forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (forward ? 1 : 2) || table.output_count != 1) return -1;
  const double s = call.scalar(0);
  for (int64_t i = 0; i < table.inputs[0].size(); ++i) {
    const R t = capped(call.in(forward ? 0 : 1, i), s);
    call.out(0, i, forward ? R(s) * t : call.in(0, i) * (R(1.0) - t * t));
  }
  return 0;
}

// tanh counts as 10 operations.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool forward = problem.operation == KL_FORWARD;
  if (!forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& z = problem.inputs[forward ? 0 : 1];
  if (z.ndim != 2) return -1;
  const double elements = static_cast<double>(z.shape[0]) * static_cast<double>(z.shape[1]);
  const double bytes = elements * z.dtype.bits / 8.0;
  if (forward)
    cost = {bytes, 4 * elements, 12 * elements};
  else
    cost = {bytes + 4 * elements, bytes, 14 * elements};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("logits_softcap", evaluate, ideal_cost);
