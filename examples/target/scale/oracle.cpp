// y = a x and dx = a dy, for x, y, dx, dy [N, C].
#include <kernel_lab/oracle.hpp>

namespace {

template <class R>
int evaluate(const kl::oracle::CallTable& call, const kl::oracle::Call<R>& c) {
  if (call.operation != KL_FORWARD && call.operation != KL_BACKWARD) return -1;
  const int64_t count = call.inputs[0].size();
  for (int64_t i = 0; i < count; ++i) c.out(0, i, R(c.scalar(0)) * c.in(0, i));
  return 0;
}

int cost(const kl_problem& problem, kl::oracle::Cost& cost) {
  const double count =
      static_cast<double>(problem.inputs[0].shape[0]) * static_cast<double>(problem.inputs[0].shape[1]);
  cost = {4 * count, 4 * count, count};
  return 0;
}

}  // namespace

KL_EXPORT_ORACLE("scale", evaluate, cost);
