// AdamW and Muon, and the bytes and operations of ideal kernels.
//
// AdamW carries sums of |terms| like any other oracle. Through Muon's five polynomials such sums
// grow without meaning (a term of each sign cancels in every step), so the size of an error is
// followed instead: an error E in X_k, small and independent of element to element, becomes
// G'(X_k)[E] in the result, where G is the rest of the iteration. G acts on singular values as an
// odd polynomial, so its derivative multiplies the rms of E by at most max |G'| over the singular
// values' interval (Higham, Functions of Matrices, 2008, ch. 3).
#include <kernel_lab/oracle_matrix.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::terms_of;
using kl::oracle::times;
using kl::oracle::Tracked;
using kl::oracle::value_of;

constexpr int kAdamW = 0, kMuon = 1;
constexpr int kG = 0, kHyper = 1;
enum AdamWHyper { kRate, kBeta1, kBeta2, kEps, kDecay, kCorrection1, kCorrection2 };
constexpr int kP = 0, kM = 1, kV = 2;
enum MuonHyper { kMuonRate, kMomentum, kMuonBeta2, kMuonDecay };
constexpr int kMomentumOut = 1, kSecondMoment = 2;

template <class R>
void adamw(const Call<R>& call, int64_t size) {
  const auto hyper = [&](int i) { return call.in(kHyper, i); };
  const R one = 1.0, step = hyper(kRate) / hyper(kCorrection1);
  const R keep = one - hyper(kRate) * hyper(kDecay);
  for (int64_t i = 0; i < size; ++i) {
    const R g = call.in(kG, i);
    const R m = hyper(kBeta1) * call.before(kM, i) + (one - hyper(kBeta1)) * g;
    const R v = hyper(kBeta2) * call.before(kV, i) + (one - hyper(kBeta2)) * g * g;
    const R root = kl::oracle::sqrt(v / hyper(kCorrection2)) + hyper(kEps);
    call.out(kP, i, keep * call.before(kP, i) - step * m / root);
    call.out(kM, i, m);
    call.out(kV, i, v);
  }
}

struct Polynomial {
  double a, b, c;
  double at(double x) const { return x * (a + x * x * (b + x * x * c)); }
  double slope(double x) const { return a + x * x * (3 * b + x * x * 5 * c); }
};
constexpr std::array<Polynomial, 5> kSteps = {
    {{8.156554524902461, -22.48329292557795, 15.878769915207462},
     {4.042929935166739, -2.808917465908714, 0.5000178451051316},
     {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
     {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
     {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}}};
constexpr double kLargestSingularValue = 1 / 1.02;  // of X_0

// What the steps from `k` on do at most to an error of X_k, and the largest singular value of X_k.
struct Growth {
  std::array<double, kSteps.size() + 1> factor{}, largest{};
  Growth() {
    constexpr int kSamples = 20000;
    largest[0] = kLargestSingularValue;
    for (size_t k = 0; k <= kSteps.size(); ++k)
      for (int i = 0; i <= kSamples; ++i) {
        double x = largest[k] * i / kSamples, slope = 1;
        if (k < kSteps.size()) largest[k + 1] = std::max(largest[k + 1], kSteps[k].at(x));
        for (size_t rest = k; rest < kSteps.size(); ++rest) {
          slope *= kSteps[rest].slope(x);
          x = kSteps[rest].at(x);
        }
        factor[k] = std::max(factor[k], std::fabs(slope));
      }
  }
};

using Matrix = kl::oracle::Matrix<double>;  // here never more rows than columns

double norm(const Matrix& m) {
  double sum = 0;
  for (const double v : m.values) sum += v * v;
  return std::sqrt(sum);
}
double rms(const Matrix& m) { return norm(m) / std::sqrt(static_cast<double>(m.values.size())); }

// The polar factor, roughly; `error` is the rms error of an element of x in units of round-off, and
// of the result's on return.
Matrix orthogonalised(Matrix x, double& error) {
  static const Growth growth;
  const double r = static_cast<double>(x.rows);
  double total = error * growth.factor[0];
  for (size_t k = 0; k < kSteps.size(); ++k) {
    const Polynomial& p = kSteps[k];
    Matrix square = times(x, transposed(x));
    const Matrix fourth = times(square, square);
    for (size_t i = 0; i < square.values.size(); ++i)
      square.values[i] = p.b * square.values[i] + p.c * fourth.values[i];
    Matrix next = times(square, x);
    for (size_t i = 0; i < x.values.size(); ++i) next.values[i] += p.a * x.values[i];
    // Rounding of a·x, of the product with x, and of the square and its square before it.
    const double mean_square = norm(x) * norm(x) / r, largest = growth.largest[k];
    const double polynomial =
        mean_square * (2 * std::fabs(p.b) + 4 * std::fabs(p.c) * largest * largest);
    total +=
        growth.factor[k + 1] * rms(x) * (std::fabs(p.a) + norm(square) + std::sqrt(r) * polynomial);
    x = std::move(next);
  }
  error = total;
  return x;
}

inline double with_terms(double value, double, double) { return value; }
inline Tracked with_terms(double value, double terms, const Tracked&) { return {value, terms}; }

template <class R>
R at_least(const R& x, double low) {
  return value_of(x) < low ? R(low) : x;
}

template <class R>
void muon_matrix(const Call<R>& call, int64_t s, int64_t rows, int64_t columns) {
  const int64_t size = rows * columns, at = s * size;
  const int64_t length = std::max(rows, columns), width = std::min(rows, columns);
  const auto hyper = [&](int i) { return call.in(kHyper, i); };
  const R one = 1.0, mu = hyper(kMomentum);
  // More outputs than inputs: a larger step.
  const double growth = std::sqrt(std::max(1.0, double(rows) / double(columns)));
  const R rate = hyper(kMuonRate) * R(growth);
  // Column j of `x` is line j of the second moment.
  Matrix x(width, length);
  const auto place = [&](int64_t i) {
    return rows >= columns ? (i % columns) * length + i / columns : i;
  };
  double squared_terms = 0;
  for (int64_t i = 0; i < size; ++i) {
    const R g = call.in(kG, at + i);
    const R momentum = mu * call.before(kMomentumOut, at + i) + (one - mu) * g;
    const R update = mu * momentum + (one - mu) * g;
    call.out(kMomentumOut, at + i, momentum);
    x.values[static_cast<size_t>(place(i))] = value_of(update);
    squared_terms += terms_of(update) * terms_of(update);
  }
  const double divisor = 1.02 * norm(x) + 1e-6;
  double error = (2 * std::sqrt(squared_terms / static_cast<double>(size)) + 3 * rms(x)) / divisor;
  for (double& v : x.values) v /= divisor;
  x = orthogonalised(std::move(x), error);

  std::vector<R> scale(static_cast<size_t>(length));
  R norm_before = 0, norm_after = 0;
  for (int64_t j = 0; j < length; ++j) {
    double squares = 0, absolute = 0;
    for (int64_t i = 0; i < width; ++i) {
      squares += x.row(i)[j] * x.row(i)[j];
      absolute += std::fabs(x.row(i)[j]);
    }
    const R sum = with_terms(squares, squares + 2 * error * absolute, R());
    const R moment = hyper(kMuonBeta2) * call.before(kSecondMoment, s * length + j) +
                     times(one - hyper(kMuonBeta2), sum / R(static_cast<double>(width)));
    call.out(kSecondMoment, s * length + j, moment);
    const R inverse = one / at_least(moment, 1e-10);
    norm_before += sum;
    norm_after += times(sum, inverse);
    scale[static_cast<size_t>(j)] = kl::oracle::sqrt(inverse);
  }
  const R ratio = kl::oracle::sqrt(norm_before) / at_least(kl::oracle::sqrt(norm_after), 1e-10);
  // The bound's γ at most, and that of plain sums (docs/harness.md).
  const double plain = 2 * std::sqrt(static_cast<double>(length));
  const double most = std::max(3 * plain, static_cast<double>(length));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t to = place(i);
    const double o = x.values[static_cast<size_t>(to)];
    const R update = times(with_terms(o, std::fabs(o) + error, R()),
                           times(scale[static_cast<size_t>(to % length)], ratio));
    const R before = call.before(kP, at + i);
    const R decay = rate * hyper(kMuonDecay) * before;
    const bool decays = value_of(update) * value_of(before) >= 0;
    R p = before - times(rate, update) - (decays ? decay : R(0.0));
    // An update whose sign is within its error of 0 may decay or not, whatever the champion did.
    if (std::fabs(value_of(update)) <= most * 0x1p-24 * terms_of(update))
      p = with_terms(value_of(p), terms_of(p) + std::fabs(value_of(decay)) / (plain * 0x1p-24),
                     R());
    call.out(kP, at + i, p);
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.input_count != 2 || table.output_count != 3) return -1;
  if (table.operation == kAdamW) {
    if (table.inputs[kG].ndim != 1 || table.inputs[kHyper].size() != 7) return -1;
    adamw(call, call.dim(kG, 0));
    return 0;
  }
  if (table.operation != kMuon || table.inputs[kG].ndim != 3 || table.inputs[kHyper].size() != 4)
    return -1;
  const int64_t rows = call.dim(kG, 1), columns = call.dim(kG, 2);
  if (table.outputs[kSecondMoment].shape[1] != std::max(rows, columns)) return -1;
  for (int64_t s = 0; s < call.dim(kG, 0); ++s) muon_matrix(call, s, rows, columns);
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& g = problem.inputs[kG];
  if (problem.operation == kAdamW) {
    const auto n = static_cast<double>(g.shape[0]);
    cost = {16 * n + 28, 12 * n, 14 * n};
    return 0;
  }
  if (problem.operation != kMuon) return -1;
  const auto s = static_cast<double>(g.shape[0]);
  const auto width = static_cast<double>(std::min(g.shape[1], g.shape[2]));
  const auto length = static_cast<double>(std::max(g.shape[1], g.shape[2]));
  const double size = width * length;
  // x·xᵀ and its square are symmetric: half of each is enough.
  cost = {s * (12 * size + 4 * length) + 16, s * (8 * size + 4 * length),
          s * (5 * (3 * width * size + width * width * width) + 20 * size)};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("optimizer_update", evaluate, ideal_cost);
