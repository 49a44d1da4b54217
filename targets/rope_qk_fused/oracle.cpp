// Rotary embedding and rmsnorm of heads in any number type, and the bytes and operations of an
// ideal kernel.
#include <kernel_lab/oracle.hpp>

#include <vector>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;

// Where a head holds an infinity 1/rms is exactly 0; its derivative is not a number.
inline double settled(double r) { return r; }
inline Tracked settled(const Tracked& r) {
  return std::isfinite(r.terms) ? r : Tracked(r.value, std::fabs(r.value));
}

// One head: its pairs (d, d + half) at `first` of its tensor, their angles at `angle` of the
// tables.
struct Head {
  int64_t first, angle, half;
};

// f(head) for every head of a tensor [B,T,heads,2*half].
template <class R, class F>
void for_heads(const Call<R>& call, int which, int64_t half, F f) {
  const int64_t positions = call.dim(which, 0) * call.dim(which, 1), heads = call.dim(which, 2);
  for (int64_t n = 0; n < positions; ++n)
    for (int64_t h = 0; h < heads; ++h)
      f(Head{(n * heads + h) * 2 * half, n % call.dim(which, 1) * half, half});
}

// The head of tensor `x` turned by its angles; the tables are inputs `tables` and the next one.
template <class R>
std::vector<R> turned(const Call<R>& call, int x, int tables, const Head& head) {
  std::vector<R> y(static_cast<size_t>(2 * head.half));
  for (int64_t d = 0; d < head.half; ++d) {
    const R x1 = call.in(x, head.first + d), x2 = call.in(x, head.first + head.half + d);
    const R c = call.in(tables, head.angle + d), s = call.in(tables + 1, head.angle + d);
    y[static_cast<size_t>(d)] = x1 * c + x2 * s;
    y[static_cast<size_t>(head.half + d)] = x2 * c - x1 * s;
  }
  return y;
}

template <class R>
R inverse_rms(const std::vector<R>& y, double eps) {
  R squares = 0;
  for (const R& v : y) squares += v * v;
  return settled(kl::oracle::rsqrt(squares * R(1.0 / static_cast<double>(y.size())) + R(eps)));
}

template <class R>
void forward(const Call<R>& call, int which, const Head& head) {
  const std::vector<R> y = turned(call, which, 2, head);
  const R r = inverse_rms(y, call.scalar(0));
  for (size_t i = 0; i < y.size(); ++i)
    call.out(which, head.first + static_cast<int64_t>(i), y[i] * r);
}

// With y turned and n = y*r:  dy = r * (dn - n * mean(dn*n)), turned back.
template <class R>
void backward(const Call<R>& call, int which, const Head& head) {
  const std::vector<R> y = turned(call, 2 + which, 4, head);
  const R r = inverse_rms(y, call.scalar(0));
  R mean = 0;
  for (size_t i = 0; i < y.size(); ++i)
    mean += call.in(which, head.first + static_cast<int64_t>(i)) * y[i] * r;
  mean *= R(1.0 / static_cast<double>(y.size()));
  const auto dy = [&](int64_t i) {
    return r * (call.in(which, head.first + i) - y[static_cast<size_t>(i)] * r * mean);
  };
  for (int64_t d = 0; d < head.half; ++d) {
    const R c = call.in(4, head.angle + d), s = call.in(5, head.angle + d);
    call.out(which, head.first + d, dy(d) * c - dy(head.half + d) * s);
    call.out(which, head.first + head.half + d, dy(head.half + d) * c + dy(d) * s);
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  const int tables = is_forward ? 2 : 4;
  if (table.input_count != tables + 2 || table.output_count != 2) return -1;
  if (table.inputs[0].ndim != 4 || table.inputs[tables].ndim != 2) return -1;
  const int64_t half = call.dim(tables, 1);
  if (call.dim(0, 3) != 2 * half) return -1;
  for (int which = 0; which < 2; ++which)
    for_heads(call, which, half, [&](const Head& head) {
      is_forward ? forward(call, which, head) : backward(call, which, head);
    });
  return 0;
}

double size_of(const DLTensor& t) {
  double size = 1;
  for (int i = 0; i < t.ndim; ++i) size *= static_cast<double>(t.shape[i]);
  return size;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const bool is_forward = problem.operation == KL_FORWARD;
  if (!is_forward && problem.operation != KL_BACKWARD) return -1;
  if (problem.input_count != (is_forward ? 4 : 6) || problem.inputs[0].ndim != 4) return -1;
  const DLTensor& cosine = problem.inputs[is_forward ? 2 : 4];
  const double elements = size_of(problem.inputs[0]) + size_of(problem.inputs[1]);
  const double bytes = elements * problem.inputs[0].dtype.bits / 8.0;
  const double tables = 2 * size_of(cosine) * cosine.dtype.bits / 8.0;
  if (is_forward)
    cost = {bytes + tables, bytes, 6 * elements};
  else
    cost = {2 * bytes + tables, bytes, 14 * elements};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("rope_qk_fused", evaluate, ideal_cost);
