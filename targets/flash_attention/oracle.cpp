// Windowed causal attention in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <algorithm>
#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::times;
using kl::oracle::Tracked;
using kl::oracle::value_of;

// Inputs of backward.
constexpr int kDo = 0, kBackQ = 1, kBackO = 4, kBackLse = 5;

// x - m where m is a constant of the row: a shift changes no sum, only its own rounding counts.
inline double shifted(double x, double m) { return x - m; }
inline Tracked shifted(const Tracked& x, const Tracked& m) {
  return {x.value - m.value, x.terms + std::fabs(x.value - m.value)};
}

struct Sizes {
  int64_t B, T, H, K, D, window;
  double scale;
  int64_t q(int64_t b, int64_t t, int64_t h) const { return ((b * T + t) * H + h) * D; }
  // The key head that query head h reads.
  int64_t k(int64_t b, int64_t t, int64_t h) const { return ((b * T + t) * K + h / (H / K)) * D; }
  int64_t lse(int64_t b, int64_t h, int64_t t) const { return (b * H + h) * T + t; }
  int64_t first(int64_t i) const { return std::max<int64_t>(0, i - window); }
};

template <class R>
R dot(const Call<R>& call, int a, int64_t a_at, int b, int64_t b_at, int64_t size) {
  R sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += call.in(a, a_at + d) * call.in(b, b_at + d);
  return sum;
}

template <class R>
void forward_query(const Call<R>& call, const Sizes& s, int64_t b, int64_t h, int64_t i) {
  std::vector<R> scores;
  for (int64_t j = s.first(i); j <= i; ++j)
    scores.push_back(R(s.scale) * dot(call, 0, s.q(b, i, h), 1, s.k(b, j, h), s.D));
  const R largest = *std::max_element(scores.begin(), scores.end());
  std::vector<R> o(static_cast<size_t>(s.D), R(0));
  R sum = 0;
  for (int64_t j = s.first(i); j <= i; ++j) {
    const R e = kl::oracle::exp(shifted(scores[static_cast<size_t>(j - s.first(i))], largest));
    sum += e;
    for (int64_t d = 0; d < s.D; ++d) o[static_cast<size_t>(d)] += e * call.in(2, s.k(b, j, h) + d);
  }
  for (int64_t d = 0; d < s.D; ++d) call.out(0, s.q(b, i, h) + d, o[static_cast<size_t>(d)] / sum);
  call.out(1, s.lse(b, h, i), largest + kl::oracle::log(sum));
}

// With P = exp(scale * q k - lse):  dv = Pᵀ do,  dS = scale * P (do vᵀ - do·o),  dq = dS k,
// dk = dSᵀ q. The lse and the o are those that forward gave.
template <class R>
void backward(const Call<R>& call, const Sizes& s) {
  std::vector<R> dk(static_cast<size_t>(s.B * s.T * s.K * s.D), R(0)), dv = dk;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.T; ++i) {
        const int64_t q = s.q(b, i, h);
        const R lse = call.in(kBackLse, s.lse(b, h, i));
        const R delta = dot(call, kDo, q, kBackO, q, s.D);
        std::vector<R> dq(static_cast<size_t>(s.D), R(0));
        for (int64_t j = s.first(i); j <= i; ++j) {
          const int64_t k = s.k(b, j, h);
          const R score = R(s.scale) * dot(call, kBackQ, q, kBackQ + 1, k, s.D);
          const R p = kl::oracle::exp(score - lse);
          const R ds = R(s.scale) * times(p, dot(call, kDo, q, kBackQ + 2, k, s.D) - delta);
          for (int64_t d = 0; d < s.D; ++d) {
            dq[static_cast<size_t>(d)] += ds * call.in(kBackQ + 1, k + d);
            dk[static_cast<size_t>(k + d)] += ds * call.in(kBackQ, q + d);
            dv[static_cast<size_t>(k + d)] += p * call.in(kDo, q + d);
          }
        }
        for (int64_t d = 0; d < s.D; ++d) call.out(0, q + d, dq[static_cast<size_t>(d)]);
      }
  for (size_t n = 0; n < dk.size(); ++n) {
    call.out(1, static_cast<int64_t>(n), dk[n]);
    call.out(2, static_cast<int64_t>(n), dv[n]);
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (is_forward ? 3 : 6) || table.output_count != (is_forward ? 2 : 3) ||
      table.scalar_count != 2)
    return -1;
  const int q = is_forward ? 0 : kBackQ;
  if (table.inputs[q].ndim != 4 || table.inputs[q + 1].ndim != 4) return -1;
  const Sizes s{call.dim(q, 0),     call.dim(q, 1), call.dim(q, 2),
                call.dim(q + 1, 2), call.dim(q, 3), static_cast<int64_t>(call.scalar(0)),
                call.scalar(1)};
  if (s.K < 1 || s.H % s.K != 0 || s.window < 0) return -1;
  if (!is_forward) {
    backward(call, s);
    return 0;
  }
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.T; ++i) forward_query(call, s, b, h, i);
  return 0;
}

// Two products of a query and a key it sees in forward, five in backward; an exp counts as 10.
int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  const DLTensor& q = problem.inputs[is_forward ? 0 : kBackQ];
  const DLTensor& k = problem.inputs[is_forward ? 1 : kBackQ + 1];
  if (q.ndim != 4 || k.ndim != 4) return -1;
  const auto T = static_cast<double>(q.shape[1]), D = static_cast<double>(q.shape[3]);
  const double heads = static_cast<double>(q.shape[0]) * static_cast<double>(q.shape[2]);
  const double w = std::min(problem.scalars[0], T - 1);
  const double pairs = heads * (T * (w + 1) - w * (w + 1) / 2);
  const double element = q.dtype.bits / 8.0;
  const double of_q = heads * T * D * element, of_lse = heads * T * 4;
  const double of_k = of_q / static_cast<double>(q.shape[2]) * static_cast<double>(k.shape[2]);
  if (is_forward)
    cost = {of_q + 2 * of_k, of_q + of_lse, pairs * (4 * D + 12)};
  else
    cost = {3 * of_q + 2 * of_k + of_lse, of_q + 2 * of_k, pairs * (10 * D + 14)};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("flash_attention", evaluate, ideal_cost);
