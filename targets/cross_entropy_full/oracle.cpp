// The loss from the last hidden rows on, in any number type, and the bytes and operations of an
// ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::times;
using kl::oracle::Tracked;
using kl::oracle::value_of;

// Inputs and outputs of forward; of backward.
constexpr int kX = 0, kW = 1, kTargets = 2, kTokenBytes = 3;
constexpr int kNll = 0, kNllSum = 1, kByteSum = 2;
constexpr int kG = 0, kBackX = 1, kBackW = 2, kBackTargets = 3;
constexpr int kDx = 0, kDw = 1;
constexpr int64_t kIgnored = -1;

template <class R>
std::vector<R> input(const Call<R>& call, int which, int64_t begin, int64_t count) {
  std::vector<R> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(call.in(which, begin + i));
  return values;
}

// x - m where m is a constant of the row: a shift changes no sum, only its own rounding counts.
inline double shifted(double x, double m) { return x - m; }
inline Tracked shifted(const Tracked& x, const Tracked& m) {
  return {x.value - m.value, x.terms + std::fabs(x.value - m.value)};
}

template <class R>
struct Row {
  std::vector<R> tanh;  // t = tanh(z/s)
  std::vector<R> exp;   // exp(s*t - largest)
  R sum = 0;
  R largest = 0;  // of s*t
};

template <class R>
Row<R> read_row(const std::vector<R>& x, const std::vector<R>& w, double s) {
  const size_t vocabulary = w.size() / x.size();
  std::vector<R> z(vocabulary, R(0.0));
  for (size_t v = 0; v < vocabulary; ++v)
    for (size_t c = 0; c < x.size(); ++c) z[v] += x[c] * w[v * x.size() + c];
  Row<R> row;
  size_t best = 0;
  for (size_t v = 0; v < vocabulary; ++v) {
    row.tanh.push_back(kl::oracle::tanh(z[v] / R(s)));
    if (row.tanh[v] > row.tanh[best]) best = v;
  }
  row.largest = R(s) * row.tanh[best];
  for (const R& t : row.tanh) {
    row.exp.push_back(kl::oracle::exp(shifted(R(s) * t, row.largest)));
    row.sum += row.exp.back();
  }
  return row;
}

// A target that is neither a token nor "ignored" is a broken batch: its results are not numbers.
bool in_vocabulary(int64_t target, int64_t vocabulary) {
  return target >= 0 && target < vocabulary;
}

template <class R>
void forward(const Call<R>& call, int64_t rows, int64_t width, int64_t vocabulary) {
  const double s = call.scalar(0);
  const std::vector<R> w = input(call, kW, 0, width * vocabulary);
  R nll_sum = 0, byte_sum = 0;
  for (int64_t n = 0; n < rows; ++n) {
    const auto target = static_cast<int64_t>(value_of(call.in(kTargets, n)));
    R nll = 0;
    if (in_vocabulary(target, vocabulary)) {
      const Row<R> row = read_row(input(call, kX, n * width, width), w, s);
      nll = row.largest + kl::oracle::log(row.sum) - R(s) * row.tanh[static_cast<size_t>(target)];
      byte_sum += call.in(kTokenBytes, target);
    } else if (target != kIgnored) {
      nll = std::numeric_limits<double>::quiet_NaN();
    }
    call.out(kNll, n, nll);
    nll_sum += nll;
  }
  call.out(kNllSum, 0, nll_sum);
  call.out(kByteSum, 0, byte_sum);
}

template <class R>
std::vector<R> logit_gradient(const Row<R>& row, int64_t target, const R& g) {
  std::vector<R> dz;
  for (size_t v = 0; v < row.exp.size(); ++v) {
    const R p = row.exp[v] / row.sum;
    const R hit = static_cast<int64_t>(v) == target ? 1.0 : 0.0;
    dz.push_back(g * times(p - hit, R(1.0) - times(row.tanh[v], row.tanh[v])));
  }
  return dz;
}

template <class R>
void backward(const Call<R>& call, int64_t rows, int64_t width, int64_t vocabulary) {
  const std::vector<R> w = input(call, kBackW, 0, width * vocabulary);
  std::vector<R> dw;
  for (int64_t i = 0; i < width * vocabulary; ++i) dw.push_back(call.before(kDw, i));
  for (int64_t n = 0; n < rows; ++n) {
    const auto target = static_cast<int64_t>(value_of(call.in(kBackTargets, n)));
    const std::vector<R> x = input(call, kBackX, n * width, width);
    std::vector<R> dz(static_cast<size_t>(vocabulary), R(0.0));
    if (in_vocabulary(target, vocabulary))
      dz = logit_gradient(read_row(x, w, call.scalar(0)), target, call.in(kG, 0));
    else if (target != kIgnored)
      dz.assign(dz.size(), R(std::numeric_limits<double>::quiet_NaN()));
    std::vector<R> dx(x.size(), R(0.0));
    for (size_t v = 0; v < dz.size(); ++v)
      for (size_t c = 0; c < x.size(); ++c) {
        dx[c] += dz[v] * w[v * x.size() + c];
        dw[v * x.size() + c] += x[c] * dz[v];
      }
    for (size_t c = 0; c < x.size(); ++c) call.out(kDx, n * width + static_cast<int64_t>(c), dx[c]);
  }
  for (int64_t i = 0; i < width * vocabulary; ++i) call.out(kDw, i, dw[static_cast<size_t>(i)]);
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != 4 || table.output_count != (is_forward ? 3 : 2)) return -1;
  const int x = is_forward ? kX : kBackX, w = is_forward ? kW : kBackW;
  if (table.inputs[x].ndim != 2 || table.inputs[w].ndim != 2) return -1;
  if (is_forward)
    forward(call, call.dim(x, 0), call.dim(x, 1), call.dim(w, 0));
  else
    backward(call, call.dim(x, 0), call.dim(x, 1), call.dim(w, 0));
  return 0;
}

// tanh and exp count as 10 operations each. An ideal pair makes the logits once. Of token_bytes
// only what targets name is read.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& x = problem.inputs[is_forward ? kX : kBackX];
  const DLTensor& w = problem.inputs[is_forward ? kW : kBackW];
  if (x.ndim != 2 || w.ndim != 2) return -1;
  const auto rows = static_cast<double>(x.shape[0]), width = static_cast<double>(x.shape[1]);
  const auto vocabulary = static_cast<double>(w.shape[0]);
  const double logits = rows * vocabulary, matrices = 4 * (rows + vocabulary) * width;
  if (is_forward)
    cost = {matrices + rows * 4 + std::min(rows, vocabulary) * 4, rows * 4 + 16,
            logits * (2 * width + 23)};
  else
    cost = {matrices + 4 * width * vocabulary + rows * 4 + 4, matrices, logits * (4 * width + 4)};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("cross_entropy_full", evaluate, ideal_cost);
