// The blend in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;

// Inputs of forward, inputs of backward, outputs of backward.
constexpr int kX = 0, kX0 = 1, kLambda = 2, kMu = 3;
constexpr int kDy = 0, kBackX = 1, kBackX0 = 2, kBackLambda = 3, kBackMu = 4;
constexpr int kDx = 0, kDx0 = 1, kDlambda = 2, kDmu = 3;

template <class R>
void forward(const Call<R>& call, int64_t size) {
  const R lambda = call.in(kLambda, 0), mu = call.in(kMu, 0);
  for (int64_t i = 0; i < size; ++i) call.out(0, i, lambda * call.in(kX, i) + mu * call.in(kX0, i));
}

template <class R>
void backward(const Call<R>& call, int64_t size) {
  const R lambda = call.in(kBackLambda, 0), mu = call.in(kBackMu, 0);
  R dlambda = call.before(kDlambda, 0), dmu = call.before(kDmu, 0);
  for (int64_t i = 0; i < size; ++i) {
    const R dy = call.in(kDy, i);
    dlambda += dy * call.in(kBackX, i);
    dmu += dy * call.in(kBackX0, i);
    call.out(kDx, i, lambda * dy);
    call.out(kDx0, i, call.before(kDx0, i) + mu * dy);
  }
  call.out(kDlambda, 0, dlambda);
  call.out(kDmu, 0, dmu);
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (is_forward ? 4 : 5) || table.output_count != (is_forward ? 1 : 4))
    return -1;
  if (table.inputs[0].ndim != 2) return -1;
  is_forward ? forward(call, table.inputs[0].size()) : backward(call, table.inputs[0].size());
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& first = problem.inputs[0];
  if (first.ndim != 2) return -1;
  const double elements = static_cast<double>(first.shape[0]) * static_cast<double>(first.shape[1]);
  const double bytes = elements * first.dtype.bits / 8.0;
  if (problem.operation == KL_FORWARD)
    cost = {2 * bytes + 8, bytes, 3 * elements};
  else if (problem.operation == KL_BACKWARD)  // dx0, dlambda and dmu are read, too
    cost = {4 * bytes + 16, 2 * bytes + 8, 7 * elements};
  else
    return -1;
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("residual_blend", evaluate, ideal_cost);
