// Sums of values and of squares in any number type, and the bytes and operations of an ideal
// kernel.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;

constexpr int kSum = 0, kSumOfSquares = 1;
constexpr int kRows = 0, kAll = 1;

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.operation != kSum && table.operation != kSumOfSquares) return -1;
  if (table.input_count != 1 || table.output_count != 2 || table.inputs[0].ndim != 2) return -1;
  const int64_t columns = call.dim(0, 1);
  R all = 0;
  for (int64_t n = 0; n < call.dim(0, 0); ++n) {
    R row = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const R x = call.in(0, n * columns + c);
      row += table.operation == kSum ? x : x * x;
    }
    if (table.outputs[kRows].ndim == 1) call.out(kRows, n, row);
    all += row;
  }
  call.out(kAll, 0, all);
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& x = problem.inputs[0];
  if (x.ndim != 2) return -1;
  const auto rows = static_cast<double>(x.shape[0]);
  const double elements = rows * static_cast<double>(x.shape[1]);
  const bool each_row = problem.outputs[kRows].ndim > 0;
  cost = {elements * x.dtype.bits / 8.0, (each_row ? rows * 8 : 0) + 8,
          elements * (problem.operation == kSum ? 1 : 2)};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("reduce", evaluate, ideal_cost);
