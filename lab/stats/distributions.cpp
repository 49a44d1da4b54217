#include <lab/stats/distributions.hpp>

#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace kl::stats {

namespace bm = boost::math;

double normal_quantile(double p) { return bm::quantile(bm::normal_distribution<double>(), p); }

double student_quantile(double p, double degrees) {
  return bm::quantile(bm::students_t_distribution<double>(degrees), p);
}

double student_below(double t, double degrees) {
  return bm::cdf(bm::students_t_distribution<double>(degrees), t);
}

double student_above(double t, double degrees) {
  return bm::cdf(bm::complement(bm::students_t_distribution<double>(degrees), t));
}

double noncentral_student_above(double t, double degrees, double noncentrality) {
  // Beyond this the series of the distribution loses all digits, and the answer is 0 or 1 anyway.
  constexpr double kFar = 30;
  if (noncentrality - t > kFar) return 1;
  if (noncentrality < -kFar) return 0;
  return bm::cdf(bm::complement(bm::non_central_t_distribution<double>(degrees, noncentrality), t));
}

}  // namespace kl::stats
