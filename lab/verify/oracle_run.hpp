// The contents of a case and what the oracle says they must become. Parent only: nothing of this
// is ever visible to the worker.
#pragma once

#include <lab/build/loader.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/case_plan.hpp>
#include <lab/verify/row_expansion.hpp>
#include <lab/verify/tensor_data.hpp>

#include <string>
#include <vector>

namespace kl {

// One operation of a case, in the order of the spec.
struct OperationData {
  const OperationSpec* spec = nullptr;
  std::vector<TensorData> inputs;
  std::vector<TensorData>
      outputs;  // before the call: the base of accumulate and inout; else empty bytes
  std::vector<double> scalars;
};

struct OracleOutput {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<double> values;
  std::vector<double> terms;
};

struct CaseData {
  std::vector<OperationData> operations;
  std::vector<std::vector<OracleOutput>> expected;  // [operation][output]; empty until evaluated
  // When set, tensors with rows hold the tile, and `expected` of outputs without rows the sum over
  // all rows.
  std::shared_ptr<const RowExpansion> expansion = {};

  // The expansion of a tensor; null when it holds everything itself.
  const RowExpansion* rows_of(const TensorSpec& tensor) const {
    return expansion && has_rows(tensor, expansion->axis) ? expansion.get() : nullptr;
  }
};

// Draws every input. Tensors of one name are one tensor: backward sees forward's x.
Result<CaseData> draw_case(const Target& target, const CaseGroup& group, const Case& item,
                           uint64_t seed);

// Evaluates all operations. A backward input named like a forward output becomes the oracle's
// value of it, rounded to the type.
Outcome evaluate_case(const OracleLibrary& oracle, CaseData& data);

Result<std::vector<OracleOutput>> evaluate_operation(const OracleLibrary& oracle,
                                                     const OperationData& data);

// The oracle's rows do not depend on other rows or on how many there are, and what has no rows is
// a sum over them: what an expansion rests on. unsupported_target when that is not so.
Outcome check_expansion(const OracleLibrary& oracle, const CaseData& tile);

// The seed of a case's contents.
uint64_t case_seed(uint64_t run_seed, const CaseGroup& group, const Case& item);

}  // namespace kl
