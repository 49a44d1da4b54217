#include <lab/verify/judge.hpp>

#include <lab/verify/parallel_rows.hpp>

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

// Elements [first, first + values) of the output, against the oracle's elements from `at` on.
class Judge {
 public:
  Judge(const OracleOutput& expected, DLDataType dtype, const std::byte* got, const Bound& bound,
        int poison_pattern)
      : expected_(expected), dtype_(dtype), got_(got), bound_(bound), pattern_(poison_pattern),
        // Half an ulp beyond the largest number still rounds to it.
        largest_(largest_finite(dtype) * (1 + unit_roundoff(dtype) / 2)) {}

  void take(int64_t first, size_t at, size_t count) {
    values_.resize(count);
    to_doubles(dtype_, got_ + static_cast<size_t>(first) * element_bytes(dtype_), values_);
    for (size_t i = 0; i < count; ++i) one(first + static_cast<int64_t>(i), at + i, values_[i]);
  }
  const OutputVerdict& verdict() const { return verdict_; }

 private:
  void one(int64_t element, size_t at, double value) {
    const double error = error_of(expected_.values[at], value, largest_);
    const double limit = bound_(expected_.values[at], expected_.terms[at]);
    if (error > verdict_.max_error || verdict_.worst_element < 0) {
      verdict_.max_error = error;
      verdict_.worst_element = element;
    }
    if (error > verdict_.beyond_plain &&
        error > bound_.plain(expected_.values[at], expected_.terms[at])) {
      verdict_.beyond_plain = error;
      verdict_.worst_beyond_plain = element;
    }
    if (error > 0 && limit > 0)
      verdict_.worst_fraction = std::max(verdict_.worst_fraction, error / limit);
    // An infinite bound would pass anything: it passes nothing.
    const bool passes = error == 0 || (std::isfinite(limit) && error <= limit);
    if (passes || verdict_.first_failure >= 0) return;
    verdict_.first_failure = element;
    verdict_.unwritten =
        pattern_ >= 0 &&
        is_poison(dtype_, got_ + static_cast<size_t>(element) * element_bytes(dtype_), pattern_);
  }

  const OracleOutput& expected_;
  DLDataType dtype_;
  const std::byte* got_;
  const Bound& bound_;
  int pattern_;
  double largest_;
  std::vector<double> values_;
  OutputVerdict verdict_;
};

// `later` follows `verdict` in the output.
void merge(OutputVerdict& verdict, const OutputVerdict& later) {
  if (later.worst_element < 0) return;
  if (verdict.worst_element < 0 || later.max_error > verdict.max_error) {
    verdict.max_error = later.max_error;
    verdict.worst_element = later.worst_element;
  }
  if (later.beyond_plain > verdict.beyond_plain) {
    verdict.beyond_plain = later.beyond_plain;
    verdict.worst_beyond_plain = later.worst_beyond_plain;
  }
  verdict.worst_fraction = std::max(verdict.worst_fraction, later.worst_fraction);
  if (verdict.first_failure >= 0) return;
  verdict.first_failure = later.first_failure;
  verdict.unwritten = later.unwritten;
}

int64_t row_length(const OracleOutput& expected, const RowExpansion& rows) {
  return static_cast<int64_t>(expected.values.size()) / rows.tile_rows;
}

}  // namespace

OutputVerdict judge_output(const OracleOutput& expected, DLDataType dtype,
                           std::span<const std::byte> got, const Bound& bound, int poison_pattern,
                           const RowExpansion* rows) {
  if (rows == nullptr) {
    Judge judge(expected, dtype, got.data(), bound, poison_pattern);
    judge.take(0, 0, expected.values.size());
    OutputVerdict verdict = judge.verdict();
    verdict.elements = static_cast<int64_t>(expected.values.size());
    return verdict;
  }
  constexpr int64_t kLeastElements = 1 << 16;
  const int64_t length = row_length(expected, *rows);
  std::vector<Judge> judges(static_cast<size_t>(most_parts()),
                            Judge(expected, dtype, got.data(), bound, poison_pattern));
  const int parts = parallel_rows(
      rows->rows, kLeastElements / std::max<int64_t>(length, 1) + 1,
      [&](int part, int64_t first, int64_t end) {
        for (int64_t row = first; row < end; ++row)
          judges[static_cast<size_t>(part)].take(
              row * length,
              rows->source[static_cast<size_t>(row)] * static_cast<size_t>(length),
              static_cast<size_t>(length));
      });
  OutputVerdict verdict;
  for (int part = 0; part < parts; ++part)
    merge(verdict, judges[static_cast<size_t>(part)].verdict());
  verdict.elements = rows->rows * length;
  return verdict;
}

size_t expected_at(const OracleOutput& expected, int64_t element, const RowExpansion* rows) {
  if (rows == nullptr) return static_cast<size_t>(element);
  const int64_t length = row_length(expected, *rows);
  return rows->source[static_cast<size_t>(element / length)] * static_cast<size_t>(length) +
         static_cast<size_t>(element % length);
}

FailingElement describe_element(const OracleOutput& expected, DLDataType dtype,
                                std::span<const std::byte> got, int64_t element, double bound,
                                const RowExpansion* rows) {
  FailingElement failing;
  const size_t at = static_cast<size_t>(element);
  double value = 0;
  to_doubles(dtype, got.data() + at * element_bytes(dtype), std::span(&value, 1));
  failing.output = expected.name;
  std::vector<int64_t> shape = expected.shape;
  if (rows != nullptr) shape[0] = rows->rows;
  failing.index = index_of(element, shape);
  failing.expected = expected.values[expected_at(expected, element, rows)];
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
