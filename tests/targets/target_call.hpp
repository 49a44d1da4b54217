// One call of a target on plain host arrays: by its oracle, its reference or its champion.
#pragma once

#include <lab/build/loader.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/bound.hpp>

#include <kernel_lab/kernel.h>

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

// `dtype`: what "T" stands for.
DLDataType type_of(const TensorSpec& spec, const std::string& dtype);

struct CallData {
  int operation = 0;
  std::vector<Array> inputs;
  std::vector<Array> outputs;  // what accumulate and inout outputs hold before the call
  std::vector<double> scalars;
  const OperationSpec* spec = nullptr;
  std::string dtype = "f32";  // what "T" stands for

  Array& input(const std::string& name);
  size_t output_index(const std::string& name) const;
};

using Axes = std::map<std::string, int64_t>;

// Every target that the lab finds.
const Catalogue& catalogue();

// A built library and the services that its target's spec lends it.
struct LentKernel {
  KernelLibrary library;
  const kl_services* services;
};

// The built libraries of one target; built once per process.
struct TargetUnderTest {
  Target spec;
  OracleLibrary oracle;
  LentKernel champion;
  LentKernel reference;
};
const TargetUnderTest& target(const std::string& key);
// The oracle alone of any target, wherever its folder is.
OracleLibrary oracle_of(const Target& target);

// Draws from a fixed seed: `real` inputs normal(0, scale), the others by their kind.
CallData make_call(const OperationSpec& operation, const Axes& axes, uint64_t seed,
                   double scale = 1, const std::vector<std::string>& absent = {},
                   const std::string& dtype = "f32");
// All operations of a target on one draw, the first one's inputs scaled. Tensors of one name are
// one tensor; what later operations are given of the first one's outputs is the oracle's value,
// rounded. `change` sees the first call before anything follows from it.
std::vector<CallData> draw_calls(const TargetUnderTest& t, const CaseShape& shape, uint64_t seed,
                                 double scale = 1, const std::vector<std::string>& absent = {},
                                 const std::function<void(CallData&)>& change = {});
// Optional tensors that are absent: none, and all where there are any.
std::vector<std::vector<std::string>> presences(const OperationSpec& first);

struct OracleOutput {
  std::vector<double> values, terms;
};
std::vector<OracleOutput> evaluate(const OracleLibrary& oracle, const CallData& call, bool tracked);

// Runs a kernel the way the lab does: `write` outputs and scratch full of NaN bytes, guard zones
// around every buffer, inputs compared afterwards. Broken rules are test failures.
std::vector<std::vector<double>> run(const LentKernel& kernel, const CallData& call,
                                     std::vector<std::byte>& saved, int threads = 2);

// verify's bound for random data, of one output.
Bound bound_of(const Target& target, const CallData& call, size_t output, const Axes& axes);

// Every element within that bound, and NaN and infinities in the same places.
void expect_within_bound(const Target& target, const std::vector<std::vector<double>>& got,
                         const std::vector<OracleOutput>& expected, const CallData& call,
                         const Axes& axes, const std::string& what);

}  // namespace kl::target_test
