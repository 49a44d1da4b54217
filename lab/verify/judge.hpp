// Compares one output with the oracle: every element, no quota.
#pragma once

#include <lab/verify/bound.hpp>
#include <lab/verify/oracle_run.hpp>
#include <lab/verify/verify.hpp>

#include <optional>
#include <span>

namespace kl {

struct OutputVerdict {
  int64_t elements = 0;
  double max_error = 0;        // infinite when a non-finite value does not match
  double worst_fraction = 0;   // max error / bound
  int64_t worst_element = -1;  // of the largest error
  // The same over the elements with errors beyond those of plain sums; -1 when there is none.
  double beyond_plain = 0;
  int64_t worst_beyond_plain = -1;
  int64_t first_failure = -1;  // first element outside its bound
  bool unwritten = false;      // the first failure still holds the poison

  bool passed() const { return first_failure < 0; }
};

// Passes an element only if |got − expected| ≤ bound is true; NaN must meet NaN, an infinity the
// same infinity. `poison_pattern` is what the output held before the call, or -1. With `rows`,
// `expected` is the tile and `got` all rows.
OutputVerdict judge_output(const OracleOutput& expected, DLDataType dtype,
                           std::span<const std::byte> got, const Bound& bound, int poison_pattern,
                           const RowExpansion* rows = nullptr);

// The element as it is reported.
FailingElement describe_element(const OracleOutput& expected, DLDataType dtype,
                                std::span<const std::byte> got, int64_t element, double bound,
                                const RowExpansion* rows = nullptr);
// Where the oracle's answer for an element of the output stands.
size_t expected_at(const OracleOutput& expected, int64_t element, const RowExpansion* rows);

double largest_value(const OracleOutput& expected);

}  // namespace kl
