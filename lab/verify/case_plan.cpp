#include <lab/verify/case_plan.hpp>

#include <lab/core/hash.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace kl {

namespace {

constexpr int kSeeds = 3;

// Distributions beyond `normal`, which every group has with three seeds.
std::vector<Distribution> other_distributions(const std::string& source, bool full) {
  if (source == "list" || full)
    return {Distribution::permuted_rows, Distribution::uniform,      Distribution::heavy_tail,
            Distribution::large_scale,   Distribution::tiny_scale,   Distribution::constant_rows,
            Distribution::zeros,         Distribution::signed_zeros, Distribution::subnormals};
  // A kernel may be careful at the listed shapes and careless at the one that is timed.
  if (source == "trainer")
    return {Distribution::permuted_rows, Distribution::heavy_tail, Distribution::tiny_scale,
            Distribution::large_scale, Distribution::subnormals};
  return {Distribution::permuted_rows, Distribution::heavy_tail, Distribution::tiny_scale};
}

bool is_strong(Distribution distribution) {
  return distribution == Distribution::normal || distribution == Distribution::uniform ||
         distribution == Distribution::heavy_tail || distribution == Distribution::permuted_rows;
}

// With an axis of length 1 some outputs are constants (rmsnorm of one column is a sign).
bool is_degenerate(const CaseGroup& group) {
  return std::any_of(group.axes.begin(), group.axes.end(),
                     [](const auto& axis) { return axis.second == 1; });
}

std::vector<Case> cases_of(const Target& target, const CaseGroup& group, bool full) {
  const std::string& source = group.source;
  const bool degenerate = is_degenerate(group);
  std::vector<Case> cases;
  for (int seed = 0; seed < kSeeds; ++seed)
    cases.push_back({Distribution::normal, seed, !degenerate});
  for (const Distribution distribution : other_distributions(source, full))
    cases.push_back({distribution, 0, !degenerate && is_strong(distribution)});
  if (target.non_finite && (source == "list" || source == "trainer" || full))
    cases.push_back({Distribution::non_finite, 0, false});
  return cases;
}

std::vector<std::string> optional_inputs(const Target& target) {
  std::vector<std::string> names;
  for (const OperationSpec& operation : target.operations)
    for (const TensorSpec& input : operation.inputs)
      if (input.optional && std::find(names.begin(), names.end(), input.name) == names.end())
        names.push_back(input.name);
  return names;
}

bool same_problem(const CaseGroup& a, const CaseGroup& b) {
  return a.axes == b.axes && a.dtype == b.dtype && a.scalars == b.scalars && a.absent == b.absent;
}

class Planner {
 public:
  Planner(const Target& target, bool full) : target_(target), full_(full) {}

  void add(CaseGroup group) {
    for (const CaseGroup& known : plan_.groups)
      if (same_problem(known, group)) return;
    group.cases = cases_of(target_, group, full_);
    plan_.groups.push_back(std::move(group));
  }
  void add_list(const std::vector<CaseShape>& shapes) {
    for (const CaseShape& shape : shapes) add({"list", shape.axes, shape.dtype, {}, {}, {}});
  }
  void add_without_optionals(const CaseShape& shape) {
    const auto absent = optional_inputs(target_);
    if (!absent.empty()) add({"absent", shape.axes, shape.dtype, {}, absent, {}});
  }
  void add_trainer(const SeamShape& shape) {
    CaseGroup group{"trainer", shape.axes, shape.dtype, shape.scalars, shape.absent, {}};
    add(group);
    const auto rows = group.axes.find(target_.row_axis);
    if (rows == group.axes.end() || rows->second < 2) return;
    group.source = "tail";
    rows->second -= 1;
    add(group);
  }
  CasePlan take() { return std::move(plan_); }

 private:
  const Target& target_;
  bool full_;
  CasePlan plan_;
};

}  // namespace

std::string CaseGroup::name() const {
  std::string text = source;
  for (const auto& [axis, length] : axes) text += fmt::format(" {}={}", axis, length);
  text += " " + dtype;
  for (const std::string& tensor : absent) text += " -" + tensor;
  return text;
}

std::string case_name(const CaseGroup& group, const Case& item) {
  return fmt::format("{} {} #{}", group.name(), to_string(item.distribution), item.seed_index);
}

int64_t CasePlan::count() const {
  int64_t count = 0;
  for (const CaseGroup& group : groups) count += static_cast<int64_t>(group.cases.size());
  return count;
}

std::string CasePlan::hash() const {
  std::string text;
  for (const CaseGroup& group : groups) {
    for (const Case& item : group.cases)
      text += fmt::format("{} {}\n", case_name(group, item), item.strong ? "strong" : "edge");
    for (const auto& [name, value] : group.scalars) text += fmt::format("{}={:a}\n", name, value);
  }
  return sha256_hex(text);
}

CasePlan plan_cases(const Target& target, const std::vector<SeamShape>& trainer_shapes, bool full) {
  Planner planner(target, full);
  planner.add_list(target.quick);
  for (const std::string& dtype : target.dtypes) {
    const auto first = std::find_if(target.quick.begin(), target.quick.end(),
                                    [&](const CaseShape& shape) { return shape.dtype == dtype; });
    if (first != target.quick.end()) planner.add_without_optionals(*first);
  }
  if (full) planner.add_list(target.full);
  for (const SeamShape& shape : trainer_shapes) planner.add_trainer(shape);
  return planner.take();
}

Outcome check_strength(const Target& target, const CasePlan& plan, bool full) {
  std::set<std::string> strong;
  for (const CaseGroup& group : plan.groups)
    for (const Case& item : group.cases)
      if (item.strong) strong.insert(group.dtype);
  for (const OperationSpec& operation : target.operations)
    for (const std::string& dtype : target.dtypes)
      if (!strong.contains(dtype))
        return make_error(
            Status::unsupported_target,
            fmt::format("cases.{} of {} has no strong case for {} in {}", full ? "full" : "quick",
                        target.key, operation.name, dtype),
            fmt::format("list a shape for {} in {}/spec.toml", dtype, target.folder.string()));
  return {};
}

Result<int64_t> axis_length(std::string_view text, const std::map<std::string, int64_t>& axes) {
  int64_t product = 1;
  while (!text.empty()) {
    const size_t star = text.find('*');
    const std::string_view factor = text.substr(0, star);
    int64_t length = 0;
    const auto parsed = std::from_chars(factor.data(), factor.data() + factor.size(), length);
    if (parsed.ec != std::errc{} || parsed.ptr != factor.data() + factor.size()) {
      const auto named = axes.find(std::string(factor));
      if (named == axes.end())
        return make_error(Status::unsupported_target,
                          fmt::format("axis \"{}\" has no length in this case", factor),
                          "give every axis a length in the case lists and the preset");
      length = named->second;
    }
    product *= length;
    text = star == std::string_view::npos ? std::string_view{} : text.substr(star + 1);
  }
  return product;
}

Result<std::vector<int64_t>> shape_of(const TensorSpec& tensor, const CaseGroup& group) {
  const auto absent = [&](const std::string& name) {
    return name == tensor.name || "d" + name == tensor.name;
  };
  std::vector<int64_t> shape;
  if (tensor.optional && std::any_of(group.absent.begin(), group.absent.end(), absent))
    return shape;
  for (const std::string& axis : tensor.axes) {
    KL_TRY(const int64_t length, axis_length(axis, group.axes));
    shape.push_back(length);
  }
  return shape;
}

Result<DLDataType> dtype_of(const TensorSpec& tensor, const CaseGroup& group) {
  return dtype_from_name(tensor.dtype == "T" ? group.dtype : tensor.dtype);
}

std::vector<double> scalars_of(const OperationSpec& operation, const CaseGroup& group) {
  std::vector<double> values;
  for (const ScalarSpec& scalar : operation.scalars) {
    const auto given = group.scalars.find(scalar.name);
    values.push_back(given == group.scalars.end() ? scalar.value : given->second);
  }
  return values;
}

}  // namespace kl
