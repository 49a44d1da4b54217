// Cast and softcap in any number type, and the bytes and operations of an ideal kernel. The cast is
// exact; what comes back is rounded once, to the type of z.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::value_of;

// y = s*t with t = tanh(z/s), and its derivative 1 - t^2. At an infinity t is exactly 1 or -1,
// where terms would not be numbers.
template <class R>
struct Softcapped {
  R t;
  Softcapped(const R& z, double s)
      : t(std::isinf(value_of(z)) ? R(std::copysign(1.0, value_of(z)))
                                  : kl::oracle::tanh(z / R(s))) {}
  R slope() const { return R(1.0) - t * t; }
};

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.output_count != 1) return -1;
  const double s = call.scalar(0);
  if (table.operation == KL_FORWARD && table.input_count == 1) {
    for (int64_t i = 0; i < table.inputs[0].size(); ++i)
      call.out(0, i, R(s) * Softcapped<R>(call.in(0, i), s).t);
    return 0;
  }
  if (table.operation != KL_BACKWARD || table.input_count != 2) return -1;
  for (int64_t i = 0; i < table.inputs[0].size(); ++i)
    call.out(0, i, call.in(0, i) * Softcapped<R>(call.in(1, i), s).slope());
  return 0;
}

// tanh counts as 10 operations.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool forward = problem.operation == KL_FORWARD;
  if (!forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& z = problem.inputs[forward ? 0 : 1];
  if (z.ndim != 2) return -1;
  const double elements = static_cast<double>(z.shape[0]) * static_cast<double>(z.shape[1]);
  if (forward)
    cost = {2 * elements, 4 * elements, 12 * elements};
  else
    cost = {6 * elements, 2 * elements, 14 * elements};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("loss_logits_cast_softcap", evaluate, ideal_cost);
