#include <lab/stats/rate_bound.hpp>

#include <boost/math/special_functions/beta.hpp>

namespace kl::stats {

double rate_upper_bound(int64_t events, int64_t trials, double confidence) {
  if (trials <= 0 || events >= trials) return 1;
  return boost::math::ibeta_inv(static_cast<double>(events + 1), static_cast<double>(trials - events),
                                confidence);
}

}  // namespace kl::stats
