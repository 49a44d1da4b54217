// One call of a target on plain host arrays: by its oracle, its reference or its champion.
#pragma once

#include <lab/build/loader.hpp>
#include <lab/target/target.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace kl::target_test {

// A tensor's values as doubles; no shape: an absent optional tensor.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

struct CallData {
  int operation = 0;
  std::vector<Array> inputs;
  std::vector<Array> outputs;  // what accumulate and inout outputs hold before the call
  std::vector<double> scalars;
  const OperationSpec* spec = nullptr;

  Array& input(const std::string& name);
  size_t output_index(const std::string& name) const;
};

using Axes = std::map<std::string, int64_t>;

// The built libraries of one target; built once per process.
struct TargetUnderTest {
  Target spec;
  OracleLibrary oracle;
  KernelLibrary champion;
  KernelLibrary reference;
};
const TargetUnderTest& target(const std::string& key);
// The oracle alone of any target, wherever its folder is.
OracleLibrary oracle_of(const Target& target);

// Draws from a fixed seed: `real` inputs normal(0, scale), the others by their kind.
CallData make_call(const OperationSpec& operation, const Axes& axes, uint64_t seed, double scale = 1,
                   const std::vector<std::string>& absent = {});
// Length of the sum behind an output: the product that its `terms` names.
double terms_length(const TensorSpec& output, const Axes& axes);

struct OracleOutput {
  std::vector<double> values, terms;
};
std::vector<OracleOutput> evaluate(const OracleLibrary& oracle, const CallData& call, bool tracked);

// Runs a kernel the way the lab does: `write` outputs and scratch full of NaN bytes, guard zones
// around every buffer, inputs compared afterwards. Broken rules are test failures.
std::vector<std::vector<double>> run(const KernelLibrary& kernel, const CallData& call,
                                     std::vector<std::byte>& saved, int threads = 2);

// Every element within u*|y| + 6*sqrt(n)*u*terms, and NaN and infinities in the same places.
void expect_within_bound(const std::vector<std::vector<double>>& got,
                         const std::vector<OracleOutput>& expected, const CallData& call,
                         const Axes& axes, const std::string& what);

}  // namespace kl::target_test
