// Residual add and rmsnorm in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;

// Inputs of forward, outputs of forward, inputs of backward.
constexpr int kResidual = 0, kUpdate = 1;
constexpr int kSum = 0, kY = 1;
constexpr int kDsum = 0, kDy = 1, kBackSum = 2;

// Where a row holds an infinity 1/rms is exactly 0; its derivative is not a number.
inline double settled(double r) { return r; }
inline Tracked settled(const Tracked& r) {
  return std::isfinite(r.terms) ? r : Tracked(r.value, std::fabs(r.value));
}

// 1 / sqrt(mean(s^2) + eps).
template <class R>
R inverse_rms(const std::vector<R>& row, double eps) {
  R squares = 0;
  for (const R& s : row) squares += s * s;
  return settled(kl::oracle::rsqrt(squares * R(1.0 / static_cast<double>(row.size())) + R(eps)));
}

template <class R>
void forward(const Call<R>& call, int64_t rows, int64_t columns) {
  for (int64_t first = 0; first < rows * columns; first += columns) {
    std::vector<R> row;
    for (int64_t i = first; i < first + columns; ++i) {
      row.push_back(call.in(kResidual, i) + call.in(kUpdate, i));
      call.out(kSum, i, row.back());
    }
    const R r = inverse_rms(row, call.scalar(0));
    for (int64_t c = 0; c < columns; ++c) call.out(kY, first + c, row[static_cast<size_t>(c)] * r);
  }
}

// With n = sum*r:  dresidual = dsum + r * (dy - n * mean(dy*n)).
template <class R>
void backward(const Call<R>& call, int64_t rows, int64_t columns) {
  for (int64_t first = 0; first < rows * columns; first += columns) {
    std::vector<R> normed;
    for (int64_t i = first; i < first + columns; ++i) normed.push_back(call.in(kBackSum, i));
    const R r = inverse_rms(normed, call.scalar(0));
    R mean = 0;
    for (int64_t c = 0; c < columns; ++c) {
      R& n = normed[static_cast<size_t>(c)];
      n *= r;
      mean += call.in(kDy, first + c) * n;
    }
    mean *= R(1.0 / static_cast<double>(columns));
    for (int64_t c = 0; c < columns; ++c)
      call.out(0, first + c,
               call.in(kDsum, first + c) +
                   r * (call.in(kDy, first + c) - normed[static_cast<size_t>(c)] * mean));
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (is_forward ? 2 : 3) || table.output_count != (is_forward ? 2 : 1))
    return -1;
  if (table.inputs[0].ndim != 2) return -1;
  const int64_t rows = call.dim(0, 0), columns = call.dim(0, 1);
  is_forward ? forward(call, rows, columns) : backward(call, rows, columns);
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& first = problem.inputs[0];
  if (first.ndim != 2) return -1;
  const double elements = static_cast<double>(first.shape[0]) * static_cast<double>(first.shape[1]);
  const double bytes = elements * first.dtype.bits / 8.0;
  if (problem.operation == KL_FORWARD)
    cost = {2 * bytes, 2 * bytes, 4 * elements};
  else if (problem.operation == KL_BACKWARD)
    cost = {3 * bytes, bytes, 9 * elements};
  else
    return -1;
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("residual_rmsnorm", evaluate, ideal_cost);
