#include <lab/verify/bound.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kl {

double Bound::scaled(double share, double value, double terms) const {
  return u_out * std::max(std::fabs(value), smallest_normal) +
         share * factor * std::max(terms, smallest_normal);
}

double Bound::operator()(double value, double terms) const { return scaled(1, value, terms); }

double Bound::plain(double value, double terms) const {
  constexpr double kPlain = 2.0 / 6;
  return scaled(kPlain, value, terms);
}

double gamma_of(int64_t terms, bool random) {
  const double n = static_cast<double>(std::max<int64_t>(terms, 1));
  const double statistical = 6 * std::sqrt(n);
  return random ? statistical : std::max(n, statistical);
}

double accumulator_roundoff(MathsClass maths, DLDataType) {
  switch (maths) {
    case MathsClass::reduced_precision:
      return 0x1p-8;
    case MathsClass::approximate:
      return 0x1p-16;
    default:
      return 0x1p-24;
  }
}

Bound make_bound(const Target& target, DLDataType output, int64_t terms, bool random) {
  if (is_integer(output)) return {};
  return {unit_roundoff(output),
          target.bound_c * gamma_of(terms, random) * accumulator_roundoff(target.maths, output),
          smallest_normal(output)};
}

double champion_cap(double champion_k, double champion_error, double largest_value,
                    int64_t elements, DLDataType output) {
  constexpr int64_t kEnoughElements = 32;
  if (elements < kEnoughElements || !std::isfinite(champion_error))
    return std::numeric_limits<double>::infinity();
  return std::max(champion_k * champion_error, ulp_of(largest_value, output));
}

}  // namespace kl
