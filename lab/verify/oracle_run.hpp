// The contents of a case and what the oracle says they must become. Parent only: nothing of this
// is ever visible to the worker.
#pragma once

#include <lab/build/loader.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/case_plan.hpp>
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
};

// Draws every input. Tensors of one name are one tensor: backward sees forward's x.
Result<CaseData> draw_case(const Target& target, const CaseGroup& group, const Case& item,
                           uint64_t seed);

// Evaluates all operations. A backward input named like a forward output becomes the oracle's
// value of it, rounded to the type.
Outcome evaluate_case(const OracleLibrary& oracle, CaseData& data);

Result<std::vector<OracleOutput>> evaluate_operation(const OracleLibrary& oracle,
                                                     const OperationData& data);

// The seed of a case's contents.
uint64_t case_seed(uint64_t run_seed, const CaseGroup& group, const Case& item);

}  // namespace kl
