// rmsnorm of the heads of q and k in any number type, and the bytes and operations of an ideal
// kernel.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::Tracked;

constexpr int kBackInputs = 2;  // backward's q and k, behind their gradients

// Where a head holds an infinity 1/rms is exactly 0; its derivative is not a number.
inline double settled(double r) { return r; }
inline Tracked settled(const Tracked& r) {
  return std::isfinite(r.terms) ? r : Tracked(r.value, std::fabs(r.value));
}

template <class R>
R inverse_rms(const Call<R>& call, int x, int64_t first, int64_t depth) {
  R squares = 0;
  for (int64_t i = first; i < first + depth; ++i) squares += call.in(x, i) * call.in(x, i);
  return settled(
      kl::oracle::rsqrt(squares * R(1.0 / static_cast<double>(depth)) + R(call.scalar(0))));
}

template <class R>
void forward(const Call<R>& call, int which, int64_t size, int64_t depth) {
  for (int64_t first = 0; first < size; first += depth) {
    const R r = inverse_rms(call, which, first, depth);
    for (int64_t i = first; i < first + depth; ++i) call.out(which, i, call.in(which, i) * r);
  }
}

// With n = x*r:  dx = r * (dy - n * mean(dy*n)).
template <class R>
void backward(const Call<R>& call, int which, int64_t size, int64_t depth) {
  const int x = kBackInputs + which;
  for (int64_t first = 0; first < size; first += depth) {
    const R r = inverse_rms(call, x, first, depth);
    R mean = 0;
    for (int64_t i = first; i < first + depth; ++i) mean += call.in(which, i) * call.in(x, i) * r;
    mean *= R(1.0 / static_cast<double>(depth));
    for (int64_t i = first; i < first + depth; ++i)
      call.out(which, i, r * (call.in(which, i) - call.in(x, i) * r * mean));
  }
}

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != (is_forward ? 2 : 4) || table.output_count != 2) return -1;
  for (int which = 0; which < 2; ++which) {
    const auto& heads = table.inputs[which];
    if (heads.ndim != 4) return -1;
    is_forward ? forward(call, which, heads.size(), heads.shape[3])
               : backward(call, which, heads.size(), heads.shape[3]);
  }
  return 0;
}

double size_of(const DLTensor& t) {
  double size = 1;
  for (int i = 0; i < t.ndim; ++i) size *= static_cast<double>(t.shape[i]);
  return size;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  if (problem.input_count < 2 || problem.inputs[0].ndim != 4) return -1;
  const double elements = size_of(problem.inputs[0]) + size_of(problem.inputs[1]);
  const double bytes = elements * problem.inputs[0].dtype.bits / 8.0;
  if (problem.operation == KL_FORWARD)
    cost = {bytes, bytes, 3 * elements};
  else if (problem.operation == KL_BACKWARD)
    cost = {2 * bytes, bytes, 8 * elements};
  else
    return -1;
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("qk_rmsnorm", evaluate, ideal_cost);
