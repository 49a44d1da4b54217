// Soft-capped cross entropy in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <limits>
#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;
using kl::oracle::value_of;

// Inputs of forward, outputs of forward, inputs of backward.
constexpr int kLogits = 0, kTargets = 1, kTokenBytes = 2;
constexpr int kNll = 0, kNllSum = 1, kByteSum = 2;
constexpr int kG = 0, kBackLogits = 1, kBackTargets = 2;
constexpr int64_t kIgnored = -1;

// tanh(z/s): exactly 1 or -1 at an infinity, whose terms would not be numbers.
template <class R>
R capped(const R& z, double s) {
  const double v = value_of(z);
  if (std::isinf(v)) return R(v > 0 ? 1.0 : -1.0);
  return kl::oracle::tanh(z / R(s));
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
  R largest = 0;        // of s*t
};

template <class R>
Row<R> read_row(const Call<R>& call, int logits, int64_t row, int64_t vocabulary, double s) {
  Row<R> r;
  int64_t best = 0;
  for (int64_t v = 0; v < vocabulary; ++v) {
    r.tanh.push_back(capped(call.in(logits, row * vocabulary + v), s));
    if (r.tanh[static_cast<size_t>(v)] > r.tanh[static_cast<size_t>(best)]) best = v;
  }
  r.largest = R(s) * r.tanh[static_cast<size_t>(best)];
  for (const R& t : r.tanh) {
    r.exp.push_back(kl::oracle::exp(shifted(R(s) * t, r.largest)));
    r.sum += r.exp.back();
  }
  return r;
}

// A target that is neither a token nor "ignored" is a broken batch: its results are not numbers.
bool in_vocabulary(int64_t target, int64_t vocabulary) {
  return target >= 0 && target < vocabulary;
}

template <class R>
void forward(const Call<R>& call, int64_t rows, int64_t vocabulary) {
  const double s = call.scalar(0);
  R nll_sum = 0, byte_sum = 0;
  for (int64_t n = 0; n < rows; ++n) {
    const auto target = static_cast<int64_t>(value_of(call.in(kTargets, n)));
    R nll = 0;
    if (target != kIgnored && !in_vocabulary(target, vocabulary)) {
      nll = std::numeric_limits<double>::quiet_NaN();
    } else if (target != kIgnored) {
      const Row<R> row = read_row(call, kLogits, n, vocabulary, s);
      nll = row.largest + kl::oracle::log(row.sum) - R(s) * row.tanh[static_cast<size_t>(target)];
      byte_sum += call.in(kTokenBytes, target);
    }
    call.out(kNll, n, nll);
    nll_sum += nll;
  }
  call.out(kNllSum, 0, nll_sum);
  call.out(kByteSum, 0, byte_sum);
}

template <class R>
void backward(const Call<R>& call, int64_t rows, int64_t vocabulary) {
  const double s = call.scalar(0);
  for (int64_t n = 0; n < rows; ++n) {
    const auto target = static_cast<int64_t>(value_of(call.in(kBackTargets, n)));
    const bool valid = in_vocabulary(target, vocabulary);
    const R other = target == kIgnored ? 0.0 : std::numeric_limits<double>::quiet_NaN();
    const Row<R> row = valid ? read_row(call, kBackLogits, n, vocabulary, s) : Row<R>();
    for (int64_t v = 0; v < vocabulary; ++v) {
      const auto at = static_cast<size_t>(v);
      call.out(0, n * vocabulary + v,
               !valid ? other
                      : call.in(kG, 0) * (row.exp[at] / row.sum - R(v == target ? 1.0 : 0.0)) *
                            (R(1.0) - row.tanh[at] * row.tanh[at]));
    }
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  const int logits = is_forward ? kLogits : kBackLogits;
  if (table.input_count != 3 || table.output_count != (is_forward ? 3 : 1)) return -1;
  if (table.inputs[logits].ndim != 2) return -1;
  if (is_forward)
    forward(call, call.dim(logits, 0), call.dim(logits, 1));
  else
    backward(call, call.dim(logits, 0), call.dim(logits, 1));
  return 0;
}

// tanh and exp count as 10 operations each.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& logits = problem.inputs[is_forward ? kLogits : kBackLogits];
  if (logits.ndim != 2) return -1;
  const auto rows = static_cast<double>(logits.shape[0]);
  const auto vocabulary = static_cast<double>(logits.shape[1]);
  const double bytes = rows * vocabulary * logits.dtype.bits / 8.0;
  if (is_forward)
    cost = {bytes + rows * 8, rows * 4 + 16, rows * vocabulary * 23};
  else
    cost = {bytes + rows * 4 + 4, bytes, rows * vocabulary * 27};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("loss_prelude", evaluate, ideal_cost);
