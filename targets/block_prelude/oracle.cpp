// The start of a block in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle_matrix.hpp>

#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Matrix;
using kl::oracle::times;

// Inputs of forward; backward's are the gradients of its outputs, then the same, then q and k.
constexpr int kX = 0, kX0 = 1, kLambda = 2, kMu = 3, kWq = 4, kWk = 5, kWv = 6;
constexpr int kCos = 7, kSin = 8, kVe = 9, kWg = 10, kInputs = 11;
constexpr int kXb = 0, kQ = 1, kK = 2, kV = 3, kOutputs = 4;
constexpr int kBackQ = kOutputs + kInputs, kBackK = kBackQ + 1, kBackInputs = kBackK + 1;
constexpr int kDx = 0, kDx0 = 1, kDlambda = 2, kDmu = 3, kDwq = 4, kDwv = 6, kDve = 7, kDwg = 8;
constexpr int64_t kGateColumns = 32;

// 1 / sqrt(mean(x^2) + eps) of `count` values.
template <class R>
R inverse_rms(const R* x, int64_t count, double eps) {
  R sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += times(x[i], x[i]);
  return kl::oracle::rsqrt(sum * R(1.0 / static_cast<double>(count)) + R(eps));
}

// g of x / rms(x), to the gradient of x: r (g - y mean(g y)) with y = x r.
template <class R>
void norm_backward(R* g, const R* y, const R& r, int64_t count) {
  R sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += times(g[i], y[i]);
  const R mean = sum * R(1.0 / static_cast<double>(count));
  for (int64_t i = 0; i < count; ++i) g[i] = times(r, g[i] - times(y[i], mean));
}

// t = tanh(s/2), s = n wg^T, so that 2 sigmoid(s) = 1 + t and its derivative is (1 - t^2)/2.
template <class R>
R half_tanh(const R* n, const R* wg) {
  R s = 0;
  for (int64_t c = 0; c < kGateColumns; ++c) s += n[c] * wg[c];
  return kl::oracle::tanh(R(0.5) * s);
}

// What both operations compute; `first` is the index of forward's first input.
template <class R>
class Block {
 public:
  Block(const Call<R>& call, int first)
      : call_(call),
        first_(first),
        T(call.dim(first + kX, 1)),
        N(call.dim(first + kX, 0) * T),
        C(call.dim(first + kX, 2)),
        H(call.dim(first + kWq, 0)),
        K(call.dim(first + kWk, 0)),
        D(call.dim(first + kWq, 1)),
        xb(N, C),
        normed(N, C) {
    const R lambda = call.in(first + kLambda, 0), mu = call.in(first + kMu, 0);
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t c = 0; c < C; ++c)
        xb.row(n)[c] =
            lambda * call.in(first + kX, n * C + c) + mu * call.in(first + kX0, n * C + c);
      inverse_rms_.push_back(inverse_rms(xb.row(n), C, call.scalar(0)));
      for (int64_t c = 0; c < C; ++c) normed.row(n)[c] = times(xb.row(n)[c], inverse_rms_.back());
    }
  }

  void forward() const {
    write(call_, kXb, xb);
    Matrix<R> q = times(normed, transposed(weight(kWq, H)));
    Matrix<R> k = times(normed, transposed(weight(kWk, K)));
    Matrix<R> v = times(normed, transposed(weight(kWv, K)));
    rotate_and_norm(q, H);
    rotate_and_norm(k, K);
    if (call_.has(kVe)) {
      const Matrix<R> wg = input(call_, kWg, K, kGateColumns);
      for (int64_t n = 0; n < N; ++n)
        for (int64_t h = 0; h < K; ++h) {
          const R gate = R(1.0) + half_tanh(normed.row(n), wg.row(h));
          for (int64_t i = h * D; i < (h + 1) * D; ++i)
            v.row(n)[i] += gate * call_.in(kVe, n * K * D + i);
        }
    }
    write(call_, kQ, q);
    write(call_, kK, k);
    write(call_, kV, v);
  }

  void backward() const {
    Matrix<R> dn(N, C);
    for (int i = 0; i < 3; ++i) {
      const int64_t heads = i == 0 ? H : K;
      const Matrix<R> w = weight(first_ + kWq + i, heads);
      Matrix<R> dy = input(call_, kQ + i, N, heads * D);
      if (i < 2) rotate_and_norm_backward(dy, input(call_, kBackQ + i, N, heads * D), w, heads);
      multiply(dy, w, dn);
      accumulate(call_, kDwq + i, transposed(dy), normed);
      if (i == 2 && call_.has(first_ + kVe)) gate_backward(dy, dn);
    }
    blend_backward(dn);
  }

 private:
  Matrix<R> weight(int index, int64_t heads) const { return input(call_, index, heads * D, C); }
  R table(int which, int64_t n, int64_t d) const {
    return call_.in(first_ + which, n % T * (D / 2) + d);
  }

  // Half-split rotary in place, then 1/rms of each head: [N, heads].
  Matrix<R> rotate(Matrix<R>& m, int64_t heads) const {
    Matrix<R> scales(N, heads);
    const int64_t half = D / 2;
    for (int64_t n = 0; n < N; ++n)
      for (int64_t h = 0; h < heads; ++h) {
        R* x = m.row(n) + h * D;
        for (int64_t d = 0; d < half; ++d) {
          const R c = table(kCos, n, d), s = table(kSin, n, d), x1 = x[d], x2 = x[d + half];
          x[d] = x1 * c + x2 * s;
          x[d + half] = x2 * c - x1 * s;
        }
        scales.row(n)[h] = inverse_rms(x, D, call_.scalar(0));
      }
    return scales;
  }
  void rotate_and_norm(Matrix<R>& m, int64_t heads) const {
    const Matrix<R> scales = rotate(m, heads);
    for (int64_t n = 0; n < N; ++n)
      for (int64_t i = 0; i < heads * D; ++i)
        m.row(n)[i] = times(m.row(n)[i], scales.row(n)[i / D]);
  }
  // dy: of the normed heads `y`, to that of the projection.
  void rotate_and_norm_backward(Matrix<R>& dy, const Matrix<R>& y, const Matrix<R>& w,
                                int64_t heads) const {
    Matrix<R> projected = times(normed, transposed(w));
    const Matrix<R> scales = rotate(projected, heads);
    const int64_t half = D / 2;
    for (int64_t n = 0; n < N; ++n)
      for (int64_t h = 0; h < heads; ++h) {
        R* g = dy.row(n) + h * D;
        norm_backward(g, y.row(n) + h * D, scales.row(n)[h], D);
        for (int64_t d = 0; d < half; ++d) {
          const R c = table(kCos, n, d), s = table(kSin, n, d), g1 = g[d], g2 = g[d + half];
          g[d] = g1 * c - g2 * s;
          g[d + half] = g1 * s + g2 * c;
        }
      }
  }

  // dve, dwg, and the gate's part of dn.
  void gate_backward(const Matrix<R>& dv, Matrix<R>& dn) const {
    const Matrix<R> wg = input(call_, first_ + kWg, K, kGateColumns);
    const Matrix<R> ve = input(call_, first_ + kVe, N, K * D);
    Matrix<R> dve(N, K * D), ds(K, N), columns(N, kGateColumns);
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t h = 0; h < K; ++h) {
        const R t = half_tanh(normed.row(n), wg.row(h));
        R dot = 0;
        for (int64_t i = h * D; i < (h + 1) * D; ++i) {
          dve.row(n)[i] = (R(1.0) + t) * dv.row(n)[i];
          dot += dv.row(n)[i] * ve.row(n)[i];
        }
        ds.row(h)[n] = times(dot, R(0.5) * (R(1.0) - times(t, t)));
        for (int64_t c = 0; c < kGateColumns; ++c) dn.row(n)[c] += ds.row(h)[n] * wg.row(h)[c];
      }
      for (int64_t c = 0; c < kGateColumns; ++c) columns.row(n)[c] = normed.row(n)[c];
    }
    write(call_, kDve, dve);
    accumulate(call_, kDwg, ds, columns);
  }

  // With t = dxb + the norm's gradient:  dx = lambda t,  dx0 += mu t,  dlambda += t.x,  dmu +=
  // t.x0.
  void blend_backward(Matrix<R>& dn) const {
    const R lambda = call_.in(first_ + kLambda, 0), mu = call_.in(first_ + kMu, 0);
    R dlambda = call_.before(kDlambda, 0), dmu = call_.before(kDmu, 0);
    for (int64_t n = 0; n < N; ++n) {
      norm_backward(dn.row(n), normed.row(n), inverse_rms_[static_cast<size_t>(n)], C);
      for (int64_t c = 0; c < C; ++c) {
        const int64_t i = n * C + c;
        const R t = call_.in(kXb, i) + dn.row(n)[c];  // dxb comes first, like xb
        call_.out(kDx, i, lambda * t);
        call_.out(kDx0, i, call_.before(kDx0, i) + mu * t);
        dlambda += t * call_.in(first_ + kX, i);
        dmu += t * call_.in(first_ + kX0, i);
      }
    }
    call_.out(kDlambda, 0, dlambda);
    call_.out(kDmu, 0, dmu);
  }

  const Call<R>& call_;
  const int first_;
  const int64_t T, N, C, H, K, D;  // N = B*T
  Matrix<R> xb, normed;
  std::vector<R> inverse_rms_;
};

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (is_forward ? kInputs : kBackInputs) ||
      table.output_count != (is_forward ? kOutputs : kDwg + 1))
    return -1;
  const int first = is_forward ? 0 : kOutputs;
  if (table.inputs[first + kX].ndim != 3 || table.inputs[first + kWq].ndim != 3) return -1;
  const Block<R> block(call, first);
  is_forward ? block.forward() : block.backward();
  return 0;
}

double elements(const DLTensor& t) {
  double n = t.ndim > 0 ? 1 : 0;
  for (int i = 0; i < t.ndim; ++i) n *= static_cast<double>(t.shape[i]);
  return n;
}

// An exponential counts as 10 operations.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  double read = 0, written = 0;
  for (int i = 0; i < problem.input_count; ++i) read += 4 * elements(problem.inputs[i]);
  for (int i = 0; i < problem.output_count; ++i) written += 4 * elements(problem.outputs[i]);
  const DLTensor* in = problem.inputs + (is_forward ? 0 : kOutputs);
  if (in[kX].ndim != 3) return -1;
  const double values = elements(in[kX]);
  const double rows = values / static_cast<double>(in[kX].shape[2]);
  const double weights = elements(in[kWq]) + elements(in[kWk]) + elements(in[kWv]);
  const double turned = rows * (elements(in[kWq]) + elements(in[kWk])) /
                        static_cast<double>(in[kX].shape[2]);  // elements of q and k
  const double gates = rows * elements(in[kWg]) / kGateColumns;
  const double gate_work = gates * (2 * kGateColumns + 13);
  if (is_forward) {
    cost = {read, written,
            2 * rows * weights + 6 * values + 6 * turned + gate_work + 2 * elements(in[kVe])};
    return 0;
  }
  double sums = 4 * elements(problem.outputs[kDx0]);  // added to: read as well
  for (int i = kDlambda; i <= kDwv; ++i) sums += 4 * elements(problem.outputs[i]);
  sums += 4 * elements(problem.outputs[kDwg]);
  cost = {read + sums, written,
          4 * rows * weights + 16 * values + 9 * turned + gate_work + 3 * elements(in[kVe]) +
              gates * 4 * kGateColumns};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("block_prelude", evaluate, ideal_cost);
