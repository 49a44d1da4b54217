// A matrix product and its epilogue in any number type, and the bytes and operations of an ideal
// kernel.
#include <kernel_lab/oracle_matrix.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Matrix;

// Inputs of forward, inputs of backward, outputs of backward.
constexpr int kX = 0, kW = 1, kBias = 2, kResidual = 3;
constexpr int kDy = 0, kBackX = 1, kBackW = 2;
constexpr int kDx = 0, kDw = 1, kDbias = 2;

template <class R>
void forward(const Call<R>& call) {
  Matrix<R> y = times(input(call, kX), transposed(input(call, kW)));
  for (int64_t m = 0; m < y.rows; ++m)
    for (int64_t p = 0; p < y.columns; ++p) {
      if (call.has(kBias)) y.row(m)[p] += call.in(kBias, p);
      if (call.has(kResidual)) y.row(m)[p] += call.in(kResidual, m * y.columns + p);
    }
  write(call, 0, y);
}

// dx = dy w,  dw += dy^T x,  dbias += the sum of dy's rows.
template <class R>
void backward(const Call<R>& call, bool with_bias) {
  const Matrix<R> dy = input(call, kDy);
  write(call, kDx, times(dy, input(call, kBackW)));
  accumulate(call, kDw, transposed(dy), input(call, kBackX));
  if (!with_bias) return;
  for (int64_t p = 0; p < dy.columns; ++p) {
    R sum = call.before(kDbias, p);
    for (int64_t m = 0; m < dy.rows; ++m) sum += dy.row(m)[p];
    call.out(kDbias, p, sum);
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (is_forward ? 4 : 3) || table.output_count != (is_forward ? 1 : 3))
    return -1;
  if (table.inputs[0].ndim != 2 || table.inputs[1].ndim != 2) return -1;
  is_forward ? forward(call) : backward(call, table.outputs[kDbias].ndim == 1);
  return 0;
}

double elements(const DLTensor& t) {
  double n = t.ndim > 0 ? 1 : 0;
  for (int i = 0; i < t.ndim; ++i) n *= static_cast<double>(t.shape[i]);
  return n;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  double read = 0, written = 0;
  for (int i = 0; i < problem.input_count; ++i) read += 4 * elements(problem.inputs[i]);
  for (int i = 0; i < problem.output_count; ++i) written += 4 * elements(problem.outputs[i]);
  const DLTensor& x = problem.inputs[is_forward ? kX : kBackX];
  const DLTensor& w = problem.inputs[is_forward ? kW : kBackW];
  if (x.ndim != 2 || w.ndim != 2) return -1;
  const double product = 2 * elements(x) * static_cast<double>(w.shape[0]);
  const double columns = static_cast<double>(x.shape[0]) * static_cast<double>(w.shape[0]);
  if (is_forward) {
    const int added = (problem.inputs[kBias].ndim > 0) + (problem.inputs[kResidual].ndim > 0);
    cost = {read, written, product + added * columns};
    return 0;
  }
  const double sums = written - 4 * elements(problem.outputs[kDx]);  // added to: read as well
  cost = {read + sums, written, 2 * product + (problem.outputs[kDbias].ndim > 0 ? columns : 0)};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("matmul_epilogue", evaluate, ideal_cost);
