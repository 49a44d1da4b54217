// The MLP in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;

// Inputs of forward, inputs of backward, outputs of backward.
constexpr int kX = 0, kW1 = 1, kW2 = 2;
constexpr int kDy = 0, kBackX = 1, kBackW1 = 2, kBackW2 = 3;
constexpr int kDx = 0, kDw1 = 1, kDw2 = 2;

// Tracked's own product bounds errors by products of sums of terms, which grow with C^2 here; these
// are of first order in the errors of both factors.
inline double product(double a, double b) { return a * b; }
inline Tracked product(const Tracked& a, const Tracked& b) {
  return {a.value * b.value, std::fabs(a.value) * b.terms + std::fabs(b.value) * a.terms};
}
// Not max(h, 0): what is not a number stays so.
template <class R>
R relu(const R& h) {
  return h < R(0.0) ? R(0.0) : h;
}

template <class R>
struct Matrix {
  int64_t rows, columns;
  std::vector<R> values;
  Matrix(int64_t m, int64_t n) : rows(m), columns(n), values(static_cast<size_t>(m * n)) {}
  R* row(int64_t i) { return values.data() + i * columns; }
  const R* row(int64_t i) const { return values.data() + i * columns; }
};

template <class R>
Matrix<R> input(const Call<R>& call, int index) {
  Matrix<R> m(call.dim(index, 0), call.dim(index, 1));
  for (size_t i = 0; i < m.values.size(); ++i)
    m.values[i] = call.in(index, static_cast<int64_t>(i));
  return m;
}
template <class R>
Matrix<R> transposed(const Matrix<R>& a) {
  Matrix<R> t(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) t.row(j)[i] = a.row(i)[j];
  return t;
}
// c += a b, row by row of b.
template <class R>
void multiply(const Matrix<R>& a, const Matrix<R>& b, Matrix<R>& c) {
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.columns; ++k) {
      const R factor = a.row(i)[k];
      const R* from = b.row(k);
      R* to = c.row(i);
      for (int64_t j = 0; j < b.columns; ++j) to[j] += factor * from[j];
    }
}
template <class R>
Matrix<R> times(const Matrix<R>& a, const Matrix<R>& b) {
  Matrix<R> c(a.rows, b.columns);
  multiply(a, b, c);
  return c;
}

template <class R>
void write(const Call<R>& call, int output, const Matrix<R>& m) {
  for (size_t i = 0; i < m.values.size(); ++i)
    call.out(output, static_cast<int64_t>(i), m.values[i]);
}
template <class R>
void accumulate(const Call<R>& call, int output, const Matrix<R>& a, const Matrix<R>& b) {
  Matrix<R> sum(a.rows, b.columns);
  for (size_t i = 0; i < sum.values.size(); ++i)
    sum.values[i] = call.before(output, static_cast<int64_t>(i));
  multiply(a, b, sum);
  write(call, output, sum);
}

template <class R>
void forward(const Call<R>& call) {
  Matrix<R> a = times(input(call, kX), input(call, kW1));
  for (R& h : a.values) h = product(relu(h), relu(h));
  write(call, 0, times(a, input(call, kW2)));
}

// With r = relu(x w1):  da = dy w2^T,  dh = 2 r da,  dx = dh w1^T,  dw1 += x^T dh,  dw2 += (r^2)^T
// dy.
template <class R>
void backward(const Call<R>& call) {
  const Matrix<R> dy = input(call, kDy), x = input(call, kBackX), w1 = input(call, kBackW1);
  Matrix<R> a = times(x, w1), dh = times(dy, transposed(input(call, kBackW2)));
  for (size_t i = 0; i < a.values.size(); ++i) {
    const R r = relu(a.values[i]);
    dh.values[i] = R(2.0) * product(r, dh.values[i]);
    a.values[i] = product(r, r);
  }
  write(call, kDx, times(dh, transposed(w1)));
  accumulate(call, kDw1, transposed(x), dh);
  accumulate(call, kDw2, transposed(a), dy);
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
  const auto width = static_cast<double>(w1.shape[0]), hidden = static_cast<double>(w1.shape[1]);
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
