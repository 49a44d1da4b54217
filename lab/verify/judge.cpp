#include <lab/verify/judge.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace kl {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The error of one element; 0 for matching non-finite values, infinite for a mismatch of kind.
double error_of(double expected, double got, double largest) {
  if (std::isnan(expected)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(expected) || std::fabs(expected) > largest)
    return std::isinf(got) && std::signbit(got) == std::signbit(expected) ? 0 : kInfinity;
  return std::isfinite(got) ? std::fabs(got - expected) : kInfinity;
}

}  // namespace

OutputVerdict judge_output(const OracleOutput& expected, DLDataType dtype,
                           std::span<const std::byte> got, const Bound& bound, int poison_pattern) {
  OutputVerdict verdict;
  verdict.elements = static_cast<int64_t>(expected.values.size());
  std::vector<double> values(expected.values.size());
  to_doubles(dtype, got.data(), values);
  // Half an ulp beyond the largest number still rounds to it.
  const double largest = largest_finite(dtype) * (1 + unit_roundoff(dtype) / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = error_of(expected.values[i], values[i], largest);
    const double limit = bound(expected.values[i], expected.terms[i]);
    if (error > verdict.max_error || verdict.worst_element < 0) {
      verdict.max_error = error;
      verdict.worst_element = static_cast<int64_t>(i);
    }
    if (error > 0 && limit > 0)
      verdict.worst_fraction = std::max(verdict.worst_fraction, error / limit);
    // An infinite bound would pass anything: it passes nothing.
    const bool passes = error == 0 || (std::isfinite(limit) && error <= limit);
    if (!passes && verdict.first_failure < 0) {
      verdict.first_failure = static_cast<int64_t>(i);
      verdict.unwritten = poison_pattern >= 0 &&
                          is_poison(dtype, got.data() + i * element_bytes(dtype), poison_pattern);
    }
  }
  return verdict;
}

FailingElement describe_element(const OracleOutput& expected, DLDataType dtype,
                                std::span<const std::byte> got, int64_t element, double bound) {
  FailingElement failing;
  const size_t at = static_cast<size_t>(element);
  double value = 0;
  to_doubles(dtype, got.data() + at * element_bytes(dtype), std::span(&value, 1));
  failing.output = expected.name;
  failing.index = index_of(element, expected.shape);
  failing.expected = expected.values[at];
  failing.got = value;
  failing.got_text = fmt::format("{:.9g}", value);
  failing.bound = bound;
  return failing;
}

double largest_value(const OracleOutput& expected) {
  double largest = 0;
  for (const double value : expected.values)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  return largest;
}

}  // namespace kl
