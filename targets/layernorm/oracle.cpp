// Layer normalisation in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;

// Inputs of forward, inputs of backward, outputs of backward.
constexpr int kX = 0, kW = 1, kB = 2;
constexpr int kDy = 0, kBackX = 1, kBackW = 2;
constexpr int kDx = 0, kDw = 1, kDb = 2;

// One row, centred and divided by its standard deviation, and the reciprocal of that.
template <class R>
struct Row {
  std::vector<R> normed;
  R scale;
};

template <class R>
Row<R> normed_row(const Call<R>& call, int x, int64_t row, int64_t columns) {
  const R inverse_columns = 1.0 / static_cast<double>(columns);
  R sum = 0, squares = 0;
  for (int64_t c = 0; c < columns; ++c) sum += call.in(x, row * columns + c);
  Row<R> result;
  for (int64_t c = 0; c < columns; ++c) {
    const R centred = call.in(x, row * columns + c) - sum * inverse_columns;
    squares += centred * centred;
    result.normed.push_back(centred);
  }
  result.scale = kl::oracle::rsqrt(squares * inverse_columns + R(call.scalar(0)));
  for (R& v : result.normed) v *= result.scale;
  return result;
}

template <class R>
void forward(const Call<R>& call, int64_t rows, int64_t columns) {
  for (int64_t n = 0; n < rows; ++n) {
    const Row<R> row = normed_row(call, kX, n, columns);
    for (int64_t c = 0; c < columns; ++c)
      call.out(0, n * columns + c,
               row.normed[static_cast<size_t>(c)] * call.in(kW, c) + call.in(kB, c));
  }
}

// With g = dy*w and the normed row n:  dx = scale * (g - mean(g) - n * mean(g*n)),
// dw += sum over rows of dy*n,  db += sum over rows of dy.
template <class R>
void backward(const Call<R>& call, int64_t rows, int64_t columns) {
  const R inverse_columns = 1.0 / static_cast<double>(columns);
  std::vector<R> dw, db;
  for (int64_t c = 0; c < columns; ++c) {
    dw.push_back(call.before(kDw, c));
    db.push_back(call.before(kDb, c));
  }
  for (int64_t n = 0; n < rows; ++n) {
    const Row<R> row = normed_row(call, kBackX, n, columns);
    R sum = 0, dot = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<size_t>(c);
      const R dy = call.in(kDy, n * columns + c), g = dy * call.in(kBackW, c);
      sum += g;
      dot += g * row.normed[at];
      dw[at] += dy * row.normed[at];
      db[at] += dy;
    }
    for (int64_t c = 0; c < columns; ++c) {
      const R g = call.in(kDy, n * columns + c) * call.in(kBackW, c);
      call.out(kDx, n * columns + c,
               row.scale * (g - sum * inverse_columns -
                            row.normed[static_cast<size_t>(c)] * dot * inverse_columns));
    }
  }
  for (int64_t c = 0; c < columns; ++c) {
    call.out(kDw, c, dw[static_cast<size_t>(c)]);
    call.out(kDb, c, db[static_cast<size_t>(c)]);
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != 3 || table.output_count != (is_forward ? 1 : 3)) return -1;
  if (table.inputs[0].ndim != 2) return -1;
  const int64_t rows = call.dim(0, 0), columns = call.dim(0, 1);
  is_forward ? forward(call, rows, columns) : backward(call, rows, columns);
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& first = problem.inputs[0];
  if (first.ndim != 2) return -1;
  const auto columns = static_cast<double>(first.shape[1]);
  const double elements = static_cast<double>(first.shape[0]) * columns;
  const double bytes = elements * first.dtype.bits / 8.0, parameter_bytes = columns * 4;
  if (problem.operation == KL_FORWARD)
    cost = {bytes + 2 * parameter_bytes, bytes, 7 * elements};
  else if (problem.operation == KL_BACKWARD)  // w, dw and db are read
    cost = {2 * bytes + 3 * parameter_bytes, bytes + 2 * parameter_bytes, 16 * elements};
  else
    return -1;
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("layernorm", evaluate, ideal_cost);
