// Gated value embeddings in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;

// Inputs of forward, inputs of backward, outputs of backward.
constexpr int kX = 0, kV = 1, kVe = 2, kWg = 3;
constexpr int kDy = 0, kBackX = 1, kBackVe = 2, kBackWg = 3;
constexpr int kDx = 0, kDve = 1, kDwg = 2;
constexpr int64_t kGateColumns = 32;

// Of first order in the errors of both factors; Tracked's own product multiplies sums of terms.
inline double product(double a, double b) { return a * b; }
inline Tracked product(const Tracked& a, const Tracked& b) {
  return {a.value * b.value, std::fabs(a.value) * b.terms + std::fabs(b.value) * a.terms};
}

// t = tanh(s/2), so that 2 sigmoid(s) = 1 + t and its derivative is (1 - t^2)/2.
template <class R>
R half_tanh(const Call<R>& call, int x, int wg, int64_t n, int64_t k) {
  R s = 0;
  for (int64_t c = 0; c < kGateColumns; ++c)
    s += call.in(x, n * kGateColumns + c) * call.in(wg, k * kGateColumns + c);
  return kl::oracle::tanh(R(0.5) * s);
}

template <class R>
void forward(const Call<R>& call, int64_t N, int64_t K, int64_t D) {
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k) {
      const R gate = R(1.0) + half_tanh(call, kX, kWg, n, k);
      for (int64_t i = (n * K + k) * D; i < (n * K + k + 1) * D; ++i)
        call.out(0, i, call.in(kV, i) + gate * call.in(kVe, i));
    }
}

// dve = gate dy;  ds = (dy . ve) gate';  dx = ds wg;  dwg += ds^T x.
template <class R>
void backward(const Call<R>& call, int64_t N, int64_t K, int64_t D) {
  std::vector<R> dwg;
  for (int64_t i = 0; i < K * kGateColumns; ++i) dwg.push_back(call.before(kDwg, i));
  for (int64_t n = 0; n < N; ++n) {
    std::vector<R> dx(kGateColumns);
    for (int64_t k = 0; k < K; ++k) {
      const R t = half_tanh(call, kBackX, kBackWg, n, k);
      R dot = 0;
      for (int64_t i = (n * K + k) * D; i < (n * K + k + 1) * D; ++i) {
        call.out(kDve, i, (R(1.0) + t) * call.in(kDy, i));
        dot += call.in(kDy, i) * call.in(kBackVe, i);
      }
      const R ds = product(dot, R(0.5) * (R(1.0) - product(t, t)));
      for (int64_t c = 0; c < kGateColumns; ++c) {
        dx[static_cast<size_t>(c)] += ds * call.in(kBackWg, k * kGateColumns + c);
        dwg[static_cast<size_t>(k * kGateColumns + c)] +=
            ds * call.in(kBackX, n * kGateColumns + c);
      }
    }
    for (int64_t c = 0; c < kGateColumns; ++c)
      call.out(kDx, n * kGateColumns + c, dx[static_cast<size_t>(c)]);
  }
  for (int64_t i = 0; i < K * kGateColumns; ++i) call.out(kDwg, i, dwg[static_cast<size_t>(i)]);
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != 4 || table.output_count != (is_forward ? 1 : 3)) return -1;
  const int ve = is_forward ? kVe : kBackVe;
  if (table.inputs[ve].ndim != 3) return -1;
  const int64_t N = call.dim(ve, 0), K = call.dim(ve, 1), D = call.dim(ve, 2);
  is_forward ? forward(call, N, K, D) : backward(call, N, K, D);
  return 0;
}

// The exponential counts as 10 operations.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& ve = problem.inputs[is_forward ? kVe : kBackVe];
  if (ve.ndim != 3) return -1;
  const auto rows = static_cast<double>(ve.shape[0]), heads = static_cast<double>(ve.shape[1]);
  const double values = 4 * rows * heads * static_cast<double>(ve.shape[2]);
  const double columns = 4 * rows * kGateColumns, weights = 4 * heads * kGateColumns;
  const double gates = rows * heads * (2 * kGateColumns + 13);
  if (is_forward)
    cost = {2 * values + columns + weights, values, gates + values / 2};
  else
    cost = {2 * values + columns + 2 * weights, values + columns + weights,
            gates + 3 * values / 4 + rows * heads * 4 * kGateColumns};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("value_embed_gate", evaluate, ideal_cost);
