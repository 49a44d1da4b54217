// Row maximum, log-sum-exp and target's logit in any number type, and the bytes and operations of
// an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <limits>
#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;
using kl::oracle::value_of;

// Inputs and outputs of forward, inputs of backward.
constexpr int kZ = 0, kTargets = 1;
constexpr int kRowMax = 0, kLse = 1, kTargetLogit = 2;
constexpr int kDlse = 0, kDtarget = 1, kBackZ = 2, kBackTargets = 3;
constexpr int64_t kIgnored = -1;

// x - m where m is a constant of the row: a shift changes no sum, only its own rounding counts.
inline double shifted(double x, double m) { return x - m; }
inline Tracked shifted(const Tracked& x, const Tracked& m) {
  return {x.value - m.value, x.terms + std::fabs(x.value - m.value)};
}

template <class R>
struct Row {
  std::vector<R> exp;  // of z - largest
  R sum = 0;
  R largest = 0;
};

template <class R>
Row<R> read_row(const Call<R>& call, int z, int64_t row, int64_t vocabulary) {
  Row<R> r;
  r.largest = call.in(z, row * vocabulary);
  for (int64_t v = 1; v < vocabulary; ++v)
    if (call.in(z, row * vocabulary + v) > r.largest) r.largest = call.in(z, row * vocabulary + v);
  for (int64_t v = 0; v < vocabulary; ++v) {
    r.exp.push_back(kl::oracle::exp(shifted(call.in(z, row * vocabulary + v), r.largest)));
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
  for (int64_t n = 0; n < rows; ++n) {
    const auto target = static_cast<int64_t>(value_of(call.in(kTargets, n)));
    const Row<R> row = read_row(call, kZ, n, vocabulary);
    const R lse = row.largest + kl::oracle::log(row.sum);
    R logit = lse;
    if (in_vocabulary(target, vocabulary))
      logit = call.in(kZ, n * vocabulary + target);
    else if (target != kIgnored)
      logit = std::numeric_limits<double>::quiet_NaN();
    call.out(kRowMax, n, row.largest);
    call.out(kLse, n, lse);
    call.out(kTargetLogit, n, logit);
  }
}

template <class R>
void backward(const Call<R>& call, int64_t rows, int64_t vocabulary) {
  for (int64_t n = 0; n < rows; ++n) {
    const auto target = static_cast<int64_t>(value_of(call.in(kBackTargets, n)));
    const bool valid = in_vocabulary(target, vocabulary);
    const Row<R> row = read_row(call, kBackZ, n, vocabulary);
    R of_lse = call.in(kDlse, n);
    if (!valid)
      of_lse +=
          target == kIgnored ? call.in(kDtarget, n) : R(std::numeric_limits<double>::quiet_NaN());
    for (int64_t v = 0; v < vocabulary; ++v) {
      R dz = of_lse * (row.exp[static_cast<size_t>(v)] / row.sum);
      if (valid && v == target) dz += call.in(kDtarget, n);
      call.out(0, n * vocabulary + v, dz);
    }
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (is_forward ? 2 : 4) || table.output_count != (is_forward ? 3 : 1))
    return -1;
  const int z = is_forward ? kZ : kBackZ;
  if (table.inputs[z].ndim != 2) return -1;
  if (is_forward)
    forward(call, call.dim(z, 0), call.dim(z, 1));
  else
    backward(call, call.dim(z, 0), call.dim(z, 1));
  return 0;
}

// exp counts as 10 operations.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& z = problem.inputs[is_forward ? kZ : kBackZ];
  if (z.ndim != 2) return -1;
  const auto rows = static_cast<double>(z.shape[0]);
  const double elements = rows * static_cast<double>(z.shape[1]);
  const double bytes = elements * z.dtype.bits / 8.0;
  if (is_forward)
    cost = {bytes + rows * 4, rows * 12, elements * 13};
  else
    cost = {bytes + rows * 12, bytes, elements * 12};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("cross_entropy_prelude", evaluate, ideal_cost);
