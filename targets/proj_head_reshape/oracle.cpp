// Rows to head-major order in any number type, and the bytes of an ideal kernel.
#include <kernel_lab/oracle.hpp>

namespace {

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;

// y[B,H,T,D] = x[B,T,H,D]; backward is the way back.
template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.operation != KL_FORWARD && table.operation != KL_BACKWARD) return -1;
  if (table.input_count != 1 || table.output_count != 1 || table.inputs[0].ndim != 4) return -1;
  const bool forward = table.operation == KL_FORWARD;
  const int64_t B = call.dim(0, 0), T = call.dim(0, forward ? 1 : 2);
  const int64_t H = call.dim(0, forward ? 2 : 1), D = call.dim(0, 3);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < T; ++t)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t d = 0; d < D; ++d) {
          const int64_t rows = ((b * T + t) * H + h) * D + d;
          const int64_t head_major = ((b * H + h) * T + t) * D + d;
          forward ? call.out(0, head_major, call.in(0, rows))
                  : call.out(0, rows, call.in(0, head_major));
        }
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& x = problem.inputs[0];
  double bytes = x.dtype.bits / 8.0;
  for (int i = 0; i < x.ndim; ++i) bytes *= static_cast<double>(x.shape[i]);
  cost = {bytes, bytes, 0};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("proj_head_reshape", evaluate, ideal_cost);
