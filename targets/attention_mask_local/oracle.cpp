// Windowed causal masks, and the bytes of an ideal kernel.
#include <kernel_lab/oracle.hpp>

namespace {

constexpr double kHidden = -0x1p100;

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;
using kl::oracle::value_of;

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {
  if (table.operation != KL_FORWARD || table.input_count != 1 || table.output_count != 1) return -1;
  if (table.outputs[0].ndim != 3) return -1;
  const int64_t L = table.outputs[0].shape[0], T = table.outputs[0].shape[1];
  for (int64_t l = 0; l < L; ++l) {
    const auto window = static_cast<int64_t>(value_of(call.in(0, l)));
    for (int64_t i = 0; i < T; ++i)
      for (int64_t j = 0; j < T; ++j) {
        const bool visible = i - window <= j && j <= i;
        call.out(0, (l * T + i) * T + j, R(visible ? 0.0 : kHidden));
      }
  }
  return 0;
}

int ideal_cost(const kl_problem& problem, Cost& cost) {
  const DLTensor& mask = problem.outputs[0];
  if (mask.ndim != 3) return -1;
  const auto L = static_cast<double>(mask.shape[0]), T = static_cast<double>(mask.shape[1]);
  cost = {L * 4, L * T * T * mask.dtype.bits / 8.0, 0};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("attention_mask_local", evaluate, ideal_cost);
