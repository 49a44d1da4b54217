// The frozen list of cases: made, counted and hashed before a candidate is loaded.
#pragma once

#include <lab/target/axes.hpp>
#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/captured.hpp>
#include <lab/verify/inputs.hpp>

#include <map>
#include <string>
#include <vector>

namespace kl {

// One call of forward and backward: contents for the tensors of its group.
struct Case {
  Distribution distribution = Distribution::normal;
  int seed_index = 0;
  bool strong = true;  // false: an edge case that cannot tell right from wrong alone
};

// Cases of one shape. They run one after the other at the same pointers, so that a kernel which
// caches by pointer, shape or first value meets changed contents.
struct CaseGroup {
  std::string source;  // "list", "absent", "strided", "rows", "blocks", "trainer", "present",
                       // "tail" or "captured"
  std::map<std::string, int64_t> axes;
  std::string dtype;
  std::map<std::string, double> scalars;
  std::vector<std::string> absent;  // optional tensors that are not passed
  std::vector<Case> cases;
  std::map<std::string, std::vector<int64_t>> strides = {};  // elements; others are packed
  std::shared_ptr<const CapturedTensors> captured = {};  // contents of a group of that source
  int64_t tile_rows = 0;  // distinct rows of a case too large for the oracle; 0: all

  std::string name() const;  // "trainer C=128 N=1024 f32"
};

struct CasePlan {
  std::vector<CaseGroup> groups;
  int64_t count() const;
  std::string hash() const;  // everything above, in order
};

// Outputs of more elements than this are made of repeated rows (row_expansion.hpp).
inline constexpr int64_t kLargestWholeCase = int64_t{4} << 20;

CasePlan plan_cases(const Target& target, const std::vector<SeamShape>& trainer_shapes, bool full,
                    int64_t largest_whole_case = kLargestWholeCase, const std::vector<CapturedCall>& captured = {});

// unsupported_target, naming the case list, unless every operation × dtype has strong cases.
Outcome check_strength(const Target& target, const CasePlan& plan, bool full);

std::string case_name(const CaseGroup& group, const Case& item);

// The shape of a tensor in a group; empty when it is optional and not passed. An optional output
// named "d" + an absent input is absent with it.
Result<std::vector<int64_t>> shape_of(const TensorSpec& tensor, const CaseGroup& group);
// Elements between neighbours along each axis; empty: packed.
std::vector<int64_t> strides_of(const TensorSpec& tensor, const CaseGroup& group);
Result<DLDataType> dtype_of(const TensorSpec& tensor, const CaseGroup& group);
// Values of an operation's scalars: the group's, else the spec's.
std::vector<double> scalars_of(const OperationSpec& operation, const CaseGroup& group);

}  // namespace kl
