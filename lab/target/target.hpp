// A target folder, read: spec.toml beside oracle, reference and kernels.
#pragma once

#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

enum class OutputMode { write, accumulate, inout };
enum class MathsClass { exact_reorder, reduced_precision, approximate };
// How values of an input are drawn: `real` follows the case's distribution, `index` is an integer
// in [0, bound axis) with `ignore` sometimes, `count` a small non-negative integer, `unit` is in
// [0.5, 1.5] (an incoming scalar gradient), `fraction` in [1/8, 3/4] (a rate of decay, a mean of
// squares).
enum class InputKind { real, index, count, unit, fraction };

// How a caller may lay a tensor out beside packed: rows further apart than they are long, or any
// strides (transposed too).
enum class StrideRule { packed, rows, any };

struct TensorSpec {
  std::string name;
  std::vector<std::string> axes;    // named axes, or decimal constants such as "1"
  std::string dtype = "T";          // "T": the case's dtype; else f32, bf16, i32 …
  InputKind kind = InputKind::real;  // of an inout output: what it holds before the call
  std::string index_bound;          // axis an `index` input points into
  std::optional<int64_t> ignore;    // index value that means "no target"
  bool optional = false;
  StrideRule strides = StrideRule::packed;
  OutputMode mode = OutputMode::write;  // outputs
  std::string terms;                // outputs: n in the bound, lengths as of axes.hpp
};

struct ScalarSpec {
  std::string name;
  double value = 0;                 // default; presets may give another
};

struct OperationSpec {
  std::string name;                 // "forward", "backward"
  int index = 0;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<ScalarSpec> scalars;
};

// One entry of a case list: axis lengths, and what is special about it.
struct CaseShape {
  std::map<std::string, int64_t> axes;
  std::string dtype = "f32";
};

struct Target {
  std::filesystem::path folder;
  std::string key;
  std::vector<std::string> aliases;
  std::string title;                // one sentence
  std::string formula;
  std::vector<std::string> families;
  MathsClass maths = MathsClass::exact_reorder;
  std::string seam;                 // name of the trainer's seam; empty: none
  std::vector<std::string> services;
  bool bitwise_repeatable = true;
  bool non_finite = false;          // NaN and infinite inputs have defined results
  double bound_c = 1;               // factor of the error bound
  double champion_k = 16;           // at most k times the champion's own error
  std::string row_axis;             // axis along which rows are independent; empty: none
  std::vector<std::string> dtypes;
  std::map<std::string, std::vector<std::string>> engine_dtypes;  // where an engine has its own
  std::vector<OperationSpec> operations;
  std::vector<CaseShape> quick, full;
  std::string spec_hash;            // of spec.toml and oracle.cpp

  std::filesystem::path oracle() const { return folder / "oracle.cpp"; }
  std::filesystem::path reference() const { return folder / "reference.cpp"; }
  // The plain kernel for an engine: the first of engine.reference_files() that exists, or the last
  // of them, which is then what is missing.
  std::filesystem::path reference(const Engine& engine) const;
  // The champion for an engine: the first of engine.kernel_files() that exists.
  std::optional<std::filesystem::path> champion(const Engine& engine) const;
  // This target with the element types of one engine, in its case lists too.
  Target for_engine(std::string_view engine) const;
  std::string status(const Engine& engine) const;  // starter-ready, trace-ready, no-starter
};

// That an engine has no champion of a target: starter_unavailable, with the file to write.
Error no_champion(const Target& target, const Engine& engine);

// Errors name file, line and column.
Result<Target> read_target(const std::filesystem::path& folder);

class Catalogue {
 public:
  // First folder on the path wins for a key. A broken spec is reported, not fatal for the others.
  static Catalogue search(const std::vector<std::filesystem::path>& path);
  const std::vector<Target>& targets() const { return targets_; }
  const std::vector<Error>& broken() const { return broken_; }
  // By key or alias; near matches in the error; a broken spec's own error when its key was asked.
  Result<Target> find(std::string_view key) const;

 private:
  std::vector<Target> targets_;
  std::vector<Error> broken_;
  std::vector<std::string> broken_keys_;
};

std::string_view to_string(MathsClass maths);
std::string_view to_string(OutputMode mode);

}  // namespace kl
