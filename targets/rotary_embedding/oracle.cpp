// Rotary embedding in any number type, and the bytes and operations of an ideal kernel.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;

constexpr int kCos = 2, kSin = 3;  // behind q and k, or behind their gradients

// Every head of tensor `which` turned by the angles of its position, `direction` 1 or -1.
template <class R>
void rotate(const Call<R>& call, int which, double direction) {
  const int64_t batch = call.dim(which, 0), length = call.dim(which, 1), heads = call.dim(which, 2);
  const int64_t half = call.dim(kCos, 1);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < length; ++t)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t d = 0; d < half; ++d) {
          const int64_t at = ((b * length + t) * heads + h) * 2 * half + d;
          const R x1 = call.in(which, at), x2 = call.in(which, at + half);
          const R c = call.in(kCos, t * half + d), s = R(direction) * call.in(kSin, t * half + d);
          call.out(which, at, x1 * c + x2 * s);
          call.out(which, at + half, x2 * c - x1 * s);
        }
}

// Forward turns, backward turns the gradients back.
template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != 4 || table.output_count != 2) return -1;
  if (table.inputs[0].ndim != 4 || table.inputs[kCos].ndim != 2) return -1;
  if (call.dim(0, 3) != 2 * call.dim(kCos, 1)) return -1;
  for (int which = 0; which < 2; ++which) rotate(call, which, is_forward ? 1.0 : -1.0);
  return 0;
}

double size_of(const DLTensor& t) {
  double size = 1;
  for (int i = 0; i < t.ndim; ++i) size *= static_cast<double>(t.shape[i]);
  return size;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  if (problem.operation != KL_FORWARD && problem.operation != KL_BACKWARD) return -1;
  if (problem.input_count != 4 || problem.inputs[0].ndim != 4) return -1;
  const double elements = size_of(problem.inputs[0]) + size_of(problem.inputs[1]);
  const double bytes = elements * problem.inputs[0].dtype.bits / 8.0;
  const double tables = 2 * size_of(problem.inputs[kCos]) * problem.inputs[kCos].dtype.bits / 8.0;
  cost = {bytes + tables, bytes, 3 * elements};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("rotary_embedding", evaluate, ideal_cost);
