// Softmax in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <algorithm>
#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;
using kl::oracle::value_of;

// exp(x - m) where m is a constant of the row: a shift changes no sum, only its own rounding
// counts. Exactly 0 for what a mask hides, whose terms would not be numbers.
inline double shifted_exp(double x, double m) { return std::exp(x - m); }
inline Tracked shifted_exp(const Tracked& x, const Tracked& m) {
  const double shifted = x.value - m.value;
  if (std::isinf(shifted) && shifted < 0) return {0.0, 0.0};
  return kl::oracle::exp(Tracked(shifted, x.terms + std::fabs(shifted)));
}

template <class R>
void forward(const Call<R>& call, int64_t rows, int64_t mask_rows, int64_t K) {
  for (int64_t n = 0; n < rows; ++n) {
    std::vector<R> row;
    for (int64_t k = 0; k < K; ++k) {
      const R z = call.in(0, n * K + k);
      row.push_back(call.has(1) ? z + call.in(1, n % mask_rows * K + k) : z);
    }
    const R largest = *std::max_element(row.begin(), row.end());
    R sum = 0;
    for (R& x : row) sum += x = shifted_exp(x, largest);
    for (int64_t k = 0; k < K; ++k) call.out(0, n * K + k, row[static_cast<size_t>(k)] / sum);
  }
}

// dz = p * (dp - sum(dp * p))
template <class R>
void backward(const Call<R>& call, int64_t rows, int64_t K) {
  for (int64_t n = 0; n < rows; ++n) {
    R sum = 0;
    for (int64_t k = 0; k < K; ++k) sum += call.in(0, n * K + k) * call.in(1, n * K + k);
    for (int64_t k = 0; k < K; ++k)
      call.out(0, n * K + k, call.in(1, n * K + k) * (call.in(0, n * K + k) - sum));
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.input_count != 2 || table.output_count != 1 || table.inputs[0].ndim != 3) return -1;
  const int64_t T = call.dim(0, 1), rows = call.dim(0, 0) * T, K = call.dim(0, 2);
  if (table.operation == KL_FORWARD)
    forward(call, rows, T, K);
  else if (table.operation == KL_BACKWARD)
    backward(call, rows, K);
  else
    return -1;
  return 0;
}

// An exp counts as 10 operations.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& z = problem.inputs[0];
  if (z.ndim != 3) return -1;
  const double row = static_cast<double>(z.shape[1]) * static_cast<double>(z.shape[2]);
  const double elements = static_cast<double>(z.shape[0]) * row;
  const double bytes = elements * z.dtype.bits / 8.0;
  if (problem.operation == KL_FORWARD) {
    const bool masked = problem.inputs[1].ndim > 0;
    cost = {bytes + (masked ? row * 4 : 0), bytes, elements * (masked ? 15 : 14)};
    return 0;
  }
  if (problem.operation != KL_BACKWARD) return -1;
  cost = {2 * bytes, bytes, elements * 4};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("softmax", evaluate, ideal_cost);
