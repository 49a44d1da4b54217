// The MLP in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle_matrix.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Matrix;
using kl::oracle::times;

// Inputs of forward, inputs of backward, outputs of backward.
constexpr int kX = 0, kW1 = 1, kW2 = 2;
constexpr int kDy = 0, kBackX = 1, kBackW1 = 2, kBackW2 = 3;
constexpr int kDx = 0, kDw1 = 1, kDw2 = 2;

// Not max(h, 0): what is not a number stays so.
template <class R>
R relu(const R& h) {
  return h < R(0.0) ? R(0.0) : h;
}

template <class R>
void forward(const Call<R>& call) {
  Matrix<R> a = times(input(call, kX), transposed(input(call, kW1)));
  for (R& h : a.values) h = times(relu(h), relu(h));
  write(call, 0, times(a, transposed(input(call, kW2))));
}

// With r = relu(x w1^T):  da = dy w2,  dh = 2 r da,  dx = dh w1,  dw1 += dh^T x,  dw2 += dy^T r^2.
template <class R>
void backward(const Call<R>& call) {
  const Matrix<R> dy = input(call, kDy), x = input(call, kBackX), w1 = input(call, kBackW1);
  Matrix<R> a = times(x, transposed(w1)), dh = times(dy, input(call, kBackW2));
  for (size_t i = 0; i < a.values.size(); ++i) {
    const R r = relu(a.values[i]);
    dh.values[i] = R(2.0) * times(r, dh.values[i]);
    a.values[i] = times(r, r);
  }
  write(call, kDx, times(dh, w1));
  accumulate(call, kDw1, transposed(dh), x);
  accumulate(call, kDw2, transposed(dy), a);
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (is_forward ? 3 : 4) || table.output_count != (is_forward ? 1 : 3))
    return -1;
  for (int i = 0; i < table.input_count; ++i)
    if (table.inputs[i].ndim != 2) return -1;
  is_forward ? forward(call) : backward(call);
  return 0;
}

// The hidden layer need not leave the cache: only arguments are counted.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& w1 = problem.inputs[is_forward ? kW1 : kBackW1];
  if (problem.inputs[0].ndim != 2 || w1.ndim != 2) return -1;
  const auto rows = static_cast<double>(problem.inputs[0].shape[0]);
  const auto width = static_cast<double>(w1.shape[1]), hidden = static_cast<double>(w1.shape[0]);
  const double activations = 4 * rows * width, weights = 2 * 4 * width * hidden;
  const double product = 2 * rows * width * hidden;
  if (is_forward)
    cost = {activations + weights, activations, 2 * product + 2 * rows * hidden};
  else
    cost = {2 * activations + 2 * weights, activations + weights, 4 * product + 3 * rows * hidden};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("fused_mlp", evaluate, ideal_cost);
