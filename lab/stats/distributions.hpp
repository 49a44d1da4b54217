// Quantiles and tails of the normal and Student distributions (Boost.Math).
#pragma once

namespace kl::stats {

double normal_quantile(double p);
double student_quantile(double p, double degrees);
double student_below(double t, double degrees);  // P(T <= t)
double student_above(double t, double degrees);  // P(T > t), exact in the far tail
// P(T > t) of the noncentral t: the power of a one-sided t test with that noncentrality.
double noncentral_student_above(double t, double degrees, double noncentrality);

}  // namespace kl::stats
