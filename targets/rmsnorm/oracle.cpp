// rmsnorm in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;

// Inputs of forward, inputs of backward, outputs of backward.
constexpr int kX = 0, kW = 1;
constexpr int kDy = 0, kBackX = 1, kBackW = 2;
constexpr int kDx = 0, kDw = 1;
constexpr double kWeightBytes = 4;  // w and dw are f32 whatever x is

// Where a row holds an infinity 1/rms is exactly 0; its derivative is not a number.
inline double settled(double r) { return r; }
inline Tracked settled(const Tracked& r) {
  return std::isfinite(r.terms) ? r : Tracked(r.value, std::fabs(r.value));
}

// 1 / sqrt(mean(x^2) + eps) of one row.
template <class R>
R inverse_rms(const Call<R>& call, int x, int64_t row, int64_t columns) {
  R sum = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const R v = call.in(x, row * columns + c);
    sum += v * v;
  }
  return settled(
      kl::oracle::rsqrt(sum * R(1.0 / static_cast<double>(columns)) + R(call.scalar(0))));
}

template <class R>
void forward(const Call<R>& call, int64_t rows, int64_t columns) {
  for (int64_t n = 0; n < rows; ++n) {
    const R r = inverse_rms(call, kX, n, columns);
    for (int64_t c = 0; c < columns; ++c) {
      const R y = call.in(kX, n * columns + c) * r;
      call.out(0, n * columns + c, call.has(kW) ? y * call.in(kW, c) : y);
    }
  }
}

// With xn = x*r and g = dy*w:  dx = r * (g - xn * mean(g*xn)),  dw += sum over rows of dy * xn.
template <class R>
void backward_x(const Call<R>& call, int64_t rows, int64_t columns) {
  const R inverse_columns = 1.0 / static_cast<double>(columns);
  for (int64_t n = 0; n < rows; ++n) {
    const R r = inverse_rms(call, kBackX, n, columns);
    const auto g = [&](int64_t c) {
      const R dy = call.in(kDy, n * columns + c);
      return call.has(kBackW) ? dy * call.in(kBackW, c) : dy;
    };
    R sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += g(c) * call.in(kBackX, n * columns + c) * r;
    const R mean = sum * inverse_columns;
    for (int64_t c = 0; c < columns; ++c)
      call.out(kDx, n * columns + c, r * (g(c) - call.in(kBackX, n * columns + c) * r * mean));
  }
}

template <class R>
void backward_w(const Call<R>& call, int64_t rows, int64_t columns) {
  std::vector<R> dw;
  for (int64_t c = 0; c < columns; ++c) dw.push_back(call.before(kDw, c));
  for (int64_t n = 0; n < rows; ++n) {
    const R r = inverse_rms(call, kBackX, n, columns);
    for (int64_t c = 0; c < columns; ++c)
      dw[static_cast<size_t>(c)] +=
          call.in(kDy, n * columns + c) * call.in(kBackX, n * columns + c) * r;
  }
  for (int64_t c = 0; c < columns; ++c) call.out(kDw, c, dw[static_cast<size_t>(c)]);
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.operation == KL_FORWARD) {
    if (table.input_count != 2 || table.output_count != 1 || table.inputs[kX].ndim != 2) return -1;
    forward(call, call.dim(kX, 0), call.dim(kX, 1));
    return 0;
  }
  if (table.operation != KL_BACKWARD) return -1;
  if (table.input_count != 3 || table.output_count != 2 || table.inputs[kDy].ndim != 2) return -1;
  const int64_t rows = call.dim(kDy, 0), columns = call.dim(kDy, 1);
  backward_x(call, rows, columns);
  if (call.has(kBackW) && table.outputs[kDw].ndim == 1) backward_w(call, rows, columns);
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& first = problem.inputs[0];
  if (first.ndim != 2) return -1;
  const auto rows = static_cast<double>(first.shape[0]);
  const auto columns = static_cast<double>(first.shape[1]);
  const double elements = rows * columns, bytes = first.dtype.bits / 8.0;
  if (problem.operation == KL_FORWARD) {
    const bool weighted = problem.inputs[kW].ndim > 0;
    cost = {elements * bytes + (weighted ? columns * kWeightBytes : 0), elements * bytes,
            elements * (weighted ? 4 : 3)};
    return 0;
  }
  if (problem.operation != KL_BACKWARD) return -1;
  const bool weighted = problem.inputs[kBackW].ndim > 0;
  cost = {2 * elements * bytes + (weighted ? 2 * columns * kWeightBytes : 0),
          elements * bytes + (weighted ? columns * kWeightBytes : 0),
          elements * (weighted ? 11 : 8)};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("rmsnorm", evaluate, ideal_cost);
