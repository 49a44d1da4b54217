// spec.toml → Target. Every error names file, line and column.
#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/near.hpp>
#include <lab/target/target.hpp>

#include <toml++/toml.h>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace kl {
namespace {

// Reads one spec; the first problem is kept and everything after it is skipped.
class SpecReader {
 public:
  explicit SpecReader(fs::path file) : file_(std::move(file)) {}

  Result<Target> read() {
    KL_TRY(const std::string text, read_file(file_));
    toml::table root;
    try {
      root = toml::parse(text, file_.string());
    } catch (const toml::parse_error& error) {
      return at(error.source(), std::string(error.description()));
    }
    known_keys(root, {"key", "aliases", "title", "formula", "families", "maths", "seam", "services",
                      "bitwise_repeatable", "non_finite", "bound_c", "champion_k", "row_axis", "dtypes", "engine", "operation", "cases"});
    Target target;
    target.folder = file_.parent_path();
    target.key = required_string(root, "key");
    target.title = required_string(root, "title");
    target.formula = string_or(root, "formula", "");
    target.aliases = strings(root, "aliases");
    target.families = strings(root, "families");
    target.services = strings(root, "services");
    target.seam = string_or(root, "seam", "");
    target.row_axis = string_or(root, "row_axis", "");
    target.dtypes = strings(root, "dtypes");
    target.bitwise_repeatable = root["bitwise_repeatable"].value_or(true);
    target.non_finite = root["non_finite"].value_or(false);
    target.bound_c = root["bound_c"].value_or(1.0);
    target.champion_k = root["champion_k"].value_or(16.0);
    target.maths = one_of<MathsClass>(root, "maths", "exact-reorder",
                                      {{"exact-reorder", MathsClass::exact_reorder},
                                       {"reduced-precision", MathsClass::reduced_precision},
                                       {"approximate", MathsClass::approximate}});
    if (target.dtypes.empty()) target.dtypes = {"f32"};
    read_engines(root, target);
    if (target.key != target.folder.filename().string())
      fail(root, fmt::format("key '{}' differs from the folder's name '{}'", target.key,
                             target.folder.filename().string()));
    read_operations(root, target);
    if (const auto* cases = root["cases"].as_table(); cases != nullptr) {
      known_keys(*cases, {"quick", "full"});
      target.quick = read_cases(*cases, "quick", target);
      target.full = read_cases(*cases, "full", target);
    }
    if (target.quick.empty())
      fail(root.contains("cases") ? *root.get("cases") : root, "cases.quick lists no case: quick = [{ N = 4, C = 65 }]");
    if (problem_) return *problem_;
    std::string oracle;
    if (auto content = read_file(target.oracle()); content.ok())
      oracle = std::move(*content);
    else
      return make_error(Status::invalid_workspace, fmt::format("{} has no oracle.cpp", target.folder.string()),
                        "write the target's mathematics there (docs: adding a target)");
    target.spec_hash = sha256_fields({text, oracle});
    return target;
  }

 private:
  Error at(const toml::source_region& where, std::string what) const {
    return make_error(Status::unsupported_target,
                      fmt::format("{}:{}:{}: {}", file_.string(), where.begin.line, where.begin.column, what),
                      "correct the spec; the other targets are not affected");
  }
  void fail(const toml::node& node, std::string what) {
    if (!problem_) problem_ = at(node.source(), std::move(what));
  }

  void known_keys(const toml::table& table, std::vector<std::string> names) {
    for (const auto& [key, value] : table)
      if (std::find(names.begin(), names.end(), key.str()) == names.end())
        fail(value, fmt::format("unknown key '{}': {}", key.str(), suggestion(key.str(), names)));
  }
  std::string required_string(const toml::table& table, std::string_view key) {
    const auto value = table[key].value<std::string>();
    if (!value || value->empty()) fail(table, fmt::format("'{}' is missing or not a string", key));
    return value.value_or("");
  }
  std::string string_or(const toml::table& table, std::string_view key, std::string fallback) {
    if (!table.contains(key)) return fallback;
    const auto value = table[key].value<std::string>();
    if (!value) fail(*table.get(key), fmt::format("'{}' is not a string", key));
    return value.value_or("");
  }
  std::vector<std::string> strings(const toml::table& table, std::string_view key) {
    std::vector<std::string> result;
    if (!table.contains(key)) return result;
    const auto* array = table[key].as_array();
    if (array == nullptr) {
      fail(*table.get(key), fmt::format("'{}' is not an array of strings", key));
      return result;
    }
    for (const auto& item : *array) {
      if (const auto text = item.value<std::string>()) result.push_back(*text);
      else fail(item, fmt::format("'{}' holds something that is not a string", key));
    }
    return result;
  }
  template <class E>
  E one_of(const toml::table& table, std::string_view key, std::string fallback,
           std::vector<std::pair<std::string, E>> choices) {
    const std::string text = string_or(table, key, fallback);
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) {
      if (name == text) return value;
      names.push_back(name);
    }
    fail(*table.get(key), fmt::format("'{}' is '{}': {}", key, text, suggestion(text, names)));
    return choices.front().second;
  }

  // [engine.cuda] dtypes = […]
  void read_engines(const toml::table& root, Target& target) {
    if (!root.contains("engine")) return;
    const auto* engines = root["engine"].as_table();
    if (engines == nullptr) return fail(*root.get("engine"), "'engine' is not a table of engines");
    for (const auto& [name, node] : *engines) {
      const auto* table = node.as_table();
      if (table == nullptr) { fail(node, fmt::format("engine '{}' is not a table", name.str())); continue; }
      known_keys(*table, {"dtypes"});
      auto dtypes = strings(*table, "dtypes");
      if (dtypes.empty()) fail(node, fmt::format("engine '{}' lists no dtypes", name.str()));
      target.engine_dtypes[std::string(name.str())] = std::move(dtypes);
    }
  }

  void read_operations(const toml::table& root, Target& target) {
    const auto* list = root["operation"].as_array();
    if (list == nullptr || list->empty()) return fail(root, "no [[operation]]");
    for (const auto& node : *list) {
      const auto* table = node.as_table();
      if (table == nullptr) return fail(node, "an operation is not a table");
      known_keys(*table, {"name", "inputs", "outputs", "scalars"});
      OperationSpec operation;
      operation.name = required_string(*table, "name");
      operation.index = static_cast<int>(target.operations.size());
      operation.inputs = read_tensors(*table, "inputs", false);
      operation.outputs = read_tensors(*table, "outputs", true);
      if (operation.outputs.empty()) fail(*table, "an operation without outputs");
      if (const auto* scalars = (*table)["scalars"].as_array(); scalars != nullptr)
        for (const auto& item : *scalars) {
          const auto* scalar = item.as_table();
          if (scalar == nullptr) { fail(item, "a scalar is not a table"); continue; }
          known_keys(*scalar, {"name", "value"});
          operation.scalars.push_back({required_string(*scalar, "name"), (*scalar)["value"].value_or(0.0)});
        }
      target.operations.push_back(std::move(operation));
    }
  }

  std::vector<TensorSpec> read_tensors(const toml::table& operation, std::string_view key, bool output) {
    std::vector<TensorSpec> result;
    const auto* list = operation[key].as_array();
    if (list == nullptr) {
      fail(operation, fmt::format("'{}' is missing", key));
      return result;
    }
    for (const auto& node : *list) {
      const auto* table = node.as_table();
      if (table == nullptr) { fail(node, "a tensor is not a table"); continue; }
      if (output) known_keys(*table, {"name", "axes", "dtype", "strides", "kind", "mode", "terms", "optional"});
      else known_keys(*table, {"name", "axes", "dtype", "strides", "kind", "index_bound", "ignore", "optional"});
      TensorSpec tensor;
      tensor.name = required_string(*table, "name");
      tensor.axes = strings(*table, "axes");
      if (tensor.axes.empty()) fail(*table, fmt::format("tensor '{}' has no axes", tensor.name));
      tensor.dtype = string_or(*table, "dtype", "T");
      static const std::set<std::string> kTypes = {"T", "f32", "f64", "bf16", "f16", "i32", "i64"};
      if (!kTypes.contains(tensor.dtype)) fail(*table, fmt::format("unknown dtype '{}'", tensor.dtype));
      tensor.optional = (*table)["optional"].value_or(false);
      tensor.terms = string_or(*table, "terms", "");
      tensor.index_bound = string_or(*table, "index_bound", "");
      if (const auto ignore = (*table)["ignore"].value<int64_t>()) tensor.ignore = *ignore;
      tensor.kind = one_of<InputKind>(*table, "kind", "real",
                                      {{"real", InputKind::real}, {"index", InputKind::index},
                                       {"count", InputKind::count}, {"unit", InputKind::unit},
                                       {"fraction", InputKind::fraction}});
      if (tensor.kind == InputKind::index && tensor.index_bound.empty())
        fail(*table, fmt::format("index tensor '{}' needs index_bound", tensor.name));
      tensor.strides = one_of<StrideRule>(*table, "strides", "packed",
                                          {{"packed", StrideRule::packed}, {"rows", StrideRule::rows},
                                           {"any", StrideRule::any}});
      tensor.mode = one_of<OutputMode>(*table, "mode", "write",
                                       {{"write", OutputMode::write}, {"accumulate", OutputMode::accumulate},
                                        {"inout", OutputMode::inout}});
      if (output && table->contains("kind") && tensor.mode != OutputMode::inout)
        fail(*table->get("kind"), fmt::format("output '{}' is not inout: it has no kind", tensor.name));
      result.push_back(std::move(tensor));
    }
    return result;
  }

  std::vector<CaseShape> read_cases(const toml::table& cases, std::string_view key, const Target& target) {
    std::vector<CaseShape> result;
    const auto* list = cases[key].as_array();
    if (list == nullptr) return result;
    std::set<std::string> axes;
    for (const auto& operation : target.operations)
      for (const auto* tensors : {&operation.inputs, &operation.outputs})
        for (const auto& tensor : *tensors)
          for (const auto& axis : tensor.axes)
            if (!std::isdigit(static_cast<unsigned char>(axis[0]))) axes.insert(axis);
    for (const auto& node : *list) {
      const auto* table = node.as_table();
      if (table == nullptr) { fail(node, "a case is not a table"); continue; }
      for (const auto& dtype : target.dtypes) {
        CaseShape shape;
        shape.dtype = dtype;
        for (const auto& [name, value] : *table) {
          const auto length = value.value<int64_t>();
          if (!axes.contains(std::string(name.str()))) fail(value, fmt::format("unknown axis '{}'", name.str()));
          else if (!length || *length < 1) fail(value, fmt::format("axis '{}' is not a positive integer", name.str()));
          else shape.axes[std::string(name.str())] = *length;
        }
        if (shape.axes.size() != axes.size()) fail(*table, "a case must give every axis");
        result.push_back(std::move(shape));
      }
    }
    return result;
  }

  fs::path file_;
  std::optional<Error> problem_;
};

}  // namespace

Result<Target> read_target(const fs::path& folder) {
  std::error_code code;
  const fs::path absolute = fs::absolute(folder, code).lexically_normal();
  return SpecReader(absolute / "spec.toml").read();
}

}  // namespace kl
