// Projections and gated value embeddings in any number type, and the bytes and operations of an
// ideal kernel.
#include <kernel_lab/oracle_matrix.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Matrix;
using kl::oracle::times;

// Inputs of forward; backward's are the gradients of its three outputs, then the same.
constexpr int kX = 0, kWq = 1, kWk = 2, kWv = 3, kVe = 4, kWg = 5, kInputs = 6;
constexpr int kQ = 0, kK = 1, kV = 2, kOutputs = 3;
constexpr int kDx = 0, kDwq = 1, kDwk = 2, kDwv = 3, kDve = 4, kDwg = 5;
constexpr int64_t kGateColumns = 32;

// t = tanh(s/2), s = x wg^T, so that 2 sigmoid(s) = 1 + t and its derivative is (1 - t^2)/2.
template <class R>
R half_tanh(const Matrix<R>& x, const Matrix<R>& wg, int64_t n, int64_t k) {
  R s = 0;
  for (int64_t c = 0; c < kGateColumns; ++c) s += x.row(n)[c] * wg.row(k)[c];
  return kl::oracle::tanh(R(0.5) * s);
}

struct Sizes {
  int64_t N, C, H, K, D;
};

template <class R>
void forward(const Call<R>& call, const Sizes& z) {
  const Matrix<R> x = input(call, kX, z.N, z.C);
  write(call, kQ, times(x, transposed(input(call, kWq, z.H * z.D, z.C))));
  write(call, kK, times(x, transposed(input(call, kWk, z.K * z.D, z.C))));
  Matrix<R> v = times(x, transposed(input(call, kWv, z.K * z.D, z.C)));
  if (call.has(kVe)) {
    const Matrix<R> wg = input(call, kWg, z.K, kGateColumns);
    for (int64_t n = 0; n < z.N; ++n)
      for (int64_t k = 0; k < z.K; ++k) {
        const R gate = R(1.0) + half_tanh(x, wg, n, k);
        for (int64_t i = k * z.D; i < (k + 1) * z.D; ++i)
          v.row(n)[i] += gate * call.in(kVe, n * z.K * z.D + i);
      }
  }
  write(call, kV, v);
}

// Of the gate: dve, dwg, and its part of dx.
template <class R>
void gate_backward(const Call<R>& call, const Sizes& z, const Matrix<R>& x, const Matrix<R>& dv,
                   Matrix<R>& dx) {
  const Matrix<R> wg = input(call, kOutputs + kWg, z.K, kGateColumns);
  const Matrix<R> ve = input(call, kOutputs + kVe, z.N, z.K * z.D);
  Matrix<R> dve(z.N, z.K * z.D), ds(z.K, z.N);
  for (int64_t n = 0; n < z.N; ++n)
    for (int64_t k = 0; k < z.K; ++k) {
      const R t = half_tanh(x, wg, n, k);
      R dot = 0;
      for (int64_t i = k * z.D; i < (k + 1) * z.D; ++i) {
        dve.row(n)[i] = (R(1.0) + t) * dv.row(n)[i];
        dot += dv.row(n)[i] * ve.row(n)[i];
      }
      ds.row(k)[n] = times(dot, R(0.5) * (R(1.0) - times(t, t)));
      for (int64_t c = 0; c < kGateColumns; ++c) dx.row(n)[c] += ds.row(k)[n] * wg.row(k)[c];
    }
  Matrix<R> columns(z.N, kGateColumns);
  for (int64_t n = 0; n < z.N; ++n)
    for (int64_t c = 0; c < kGateColumns; ++c) columns.row(n)[c] = x.row(n)[c];
  write(call, kDve, dve);
  accumulate(call, kDwg, ds, columns);
}

template <class R>
void backward(const Call<R>& call, const Sizes& z) {
  const Matrix<R> x = input(call, kOutputs + kX, z.N, z.C);
  Matrix<R> dx(z.N, z.C);
  const int64_t widths[] = {z.H * z.D, z.K * z.D, z.K * z.D};
  for (const int i : {kQ, kK, kV}) {
    const Matrix<R> dy = input(call, i, z.N, widths[i]);
    multiply(dy, input(call, kOutputs + kWq + i, widths[i], z.C), dx);
    accumulate(call, kDwq + i, transposed(dy), x);
    if (i == kV && call.has(kOutputs + kVe)) gate_backward(call, z, x, dy, dx);
  }
  write(call, kDx, dx);
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != kInputs + (is_forward ? 0 : kOutputs) ||
      table.output_count != (is_forward ? kOutputs : 6))
    return -1;
  const int x = (is_forward ? 0 : kOutputs) + kX;
  if (table.inputs[x].ndim != 2 || table.inputs[x + kWq].ndim != 3) return -1;
  const Sizes z{call.dim(x, 0), call.dim(x, 1), call.dim(x + kWq, 0), call.dim(x + kWk, 0),
                call.dim(x + kWq, 1)};
  is_forward ? forward(call, z) : backward(call, z);
  return 0;
}

double elements(const DLTensor& t) {
  double n = t.ndim > 0 ? 1 : 0;
  for (int i = 0; i < t.ndim; ++i) n *= static_cast<double>(t.shape[i]);
  return n;
}

// The gate reads columns of x that the projections read anyway; the exponential counts as 10.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  double read = 0, written = 0;
  for (int i = 0; i < problem.input_count; ++i) read += 4 * elements(problem.inputs[i]);
  for (int i = 0; i < problem.output_count; ++i) written += 4 * elements(problem.outputs[i]);
  const DLTensor* in = problem.inputs + (is_forward ? 0 : kOutputs);
  if (in[kX].ndim != 2) return -1;
  const auto rows = static_cast<double>(in[kX].shape[0]);
  const double weights = elements(in[kWq]) + elements(in[kWk]) + elements(in[kWv]);
  const double gates = rows * elements(in[kWg]) / kGateColumns;
  const double gate_work = gates * (2 * kGateColumns + 13);
  if (is_forward) {
    cost = {read, written, 2 * rows * weights + gate_work + 2 * elements(in[kVe])};
    return 0;
  }
  const double sums = 4 * (weights + elements(in[kWg]));  // added to: read as well
  cost = {read + sums, written,
          4 * rows * weights + gate_work + 3 * elements(in[kVe]) + gates * 4 * kGateColumns};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("attention_prelude", evaluate, ideal_cost);
