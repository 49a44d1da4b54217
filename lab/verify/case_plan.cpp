#include <lab/verify/case_plan.hpp>

#include <lab/core/hash.hpp>
#include <lab/verify/row_expansion.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kl {

namespace {

constexpr int kSeeds = 3;

// Row counts that kernels which work in blocks treat in a way of their own: one over, and whole blocks.
constexpr int64_t kManyRows = 4097;
constexpr int64_t kWholeBlocks[] = {2048, 4096};  // with --full
constexpr int64_t kMostManyRowOutputs = int64_t{1} << 21;  // elements

// Distributions beyond `normal`, which every group has with three seeds.
std::vector<Distribution> other_distributions(const std::string& source, bool full) {
  if (source == "list" || (full && source != "rows"))
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
bool is_degenerate(const std::map<std::string, int64_t>& axes) {
  return std::any_of(axes.begin(), axes.end(), [](const auto& axis) { return axis.second == 1; });
}

std::vector<Case> cases_of(const Target& target, const CaseGroup& group, bool full) {
  const std::string& source = group.source;
  const bool degenerate = is_degenerate(group.axes);
  std::vector<Case> cases;
  // A large shape was its preset's; one row less needs no second round of everything.
  if (group.tile_rows > 0 && source == "tail") return {{Distribution::normal, 0, !degenerate}};
  // Tensors that the step never passes, at its shape, and whole blocks of rows: one question each.
  if (source == "present" || source == "blocks") return {{Distribution::normal, 0, !degenerate}};
  for (int seed = 0; seed < kSeeds; ++seed)
    cases.push_back({Distribution::normal, seed, !degenerate});
  for (const Distribution distribution : other_distributions(source, full)) {
    // The rows of a large case are in random order already.
    if (group.tile_rows > 0 && distribution == Distribution::permuted_rows) continue;
    cases.push_back({distribution, 0, !degenerate && is_strong(distribution)});
  }
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
  return a.axes == b.axes && a.dtype == b.dtype && a.scalars == b.scalars &&
         a.absent == b.absent && a.strides == b.strides;
}

class Planner {
 public:
  Planner(const Target& target, bool full, int64_t largest_whole_case)
      : target_(target), full_(full), largest_whole_case_(largest_whole_case) {}

  void add(CaseGroup group) {
    for (const CaseGroup& known : plan_.groups)
      if (same_problem(known, group)) return;
    group.tile_rows = tile_rows_of(target_, group, largest_whole_case_);
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
  // Sums over rows (gradients of weights) are long only where rows are many: the trainer may leave
  // such outputs away, and listed shapes are small. Few columns, so that it costs little.
  void add_many_rows(const CaseShape& shape) {
    if (!shape.axes.contains(target_.row_axis)) return;
    add_rows("rows", shape, kManyRows);
    if (!full_) return;
    for (const int64_t rows : kWholeBlocks) add_rows("blocks", shape, rows);
  }
  void add_trainer(const SeamShape& shape) {
    CaseGroup group{"trainer",    shape.axes, shape.dtype, shape.scalars,
                    shape.absent, {},         shape.strides};
    add(group);
    if (!shape.absent.empty()) add_with_optionals(group);
    const auto rows = group.axes.find(target_.row_axis);
    if (rows == group.axes.end() || rows->second < 2) return;
    group.source = "tail";
    rows->second -= 1;
    add(group);
  }
  // Rows an odd and an even number of elements apart, and transposed, for the tensors whose spec
  // lets a caller do that.
  void add_strided(const CaseShape& shape) {
    constexpr int64_t kOddGap = 3, kEvenGap = 64;
    for (const int64_t gap : {kOddGap, kEvenGap, int64_t{0}}) {
      CaseGroup group{"strided", shape.axes, shape.dtype, {}, {}, {}};
      for (const OperationSpec& operation : target_.operations)
        for (const auto* tensors : {&operation.inputs, &operation.outputs})
          for (const TensorSpec& tensor : *tensors) stride(tensor, gap, group);
      if (!group.strides.empty()) add(group);
    }
  }
  // Real data of a shape that may be there already; of a large one its first rows.
  void add_captured(const CapturedCall& call) {
    CaseGroup group{"captured", call.shape.axes, call.shape.dtype, call.shape.scalars, call.shape.absent, {}, call.shape.strides};
    group.captured = call.tensors;
    group.tile_rows = tile_rows_of(target_, group, largest_whole_case_);
    group.cases = {{Distribution::captured, 0, false}};
    plan_.groups.push_back(std::move(group));
  }
  CasePlan take() { return std::move(plan_); }

 private:
  void add_rows(const std::string& source, const CaseShape& shape, int64_t rows) {
    CaseGroup group{source, shape.axes, shape.dtype, {}, {}, {}};
    group.axes[target_.row_axis] = rows;
    if (output_elements(target_, group) <= kMostManyRowOutputs) add(std::move(group));
  }
  // The trainer's shape with the tensors that it leaves away, where its axes give them a length.
  void add_with_optionals(CaseGroup group) {
    group.source = "present";
    group.absent.clear();
    for (const OperationSpec& operation : target_.operations)
      for (const auto* tensors : {&operation.inputs, &operation.outputs})
        for (const TensorSpec& tensor : *tensors)
          if (!shape_of(tensor, group).ok()) return;
    add(std::move(group));
  }
  // `gap` 0: transposed.
  static void stride(const TensorSpec& tensor, int64_t gap, CaseGroup& group) {
    const auto needed = gap > 0 ? StrideRule::rows : StrideRule::any;
    const auto shape = shape_of(tensor, group);
    if (tensor.strides < needed || !shape.ok() || shape->size() < 2) return;
    std::vector<int64_t> strides(shape->size(), 1);
    if (gap > 0) {
      for (size_t axis = shape->size() - 1; axis-- > 0;)
        strides[axis] = strides[axis + 1] * (*shape)[axis + 1] + (axis + 2 == shape->size() ? gap : 0);
    } else {
      for (size_t axis = 1; axis < shape->size(); ++axis)
        strides[axis] = strides[axis - 1] * (*shape)[axis - 1];
    }
    group.strides[tensor.name] = std::move(strides);
  }

  const Target& target_;
  bool full_;
  int64_t largest_whole_case_;
  CasePlan plan_;
};

}  // namespace

std::string CaseGroup::name() const {
  std::string text = source;
  for (const auto& [axis, length] : axes) text += fmt::format(" {}={}", axis, length);
  text += " " + dtype;
  for (const std::string& tensor : absent) text += " -" + tensor;
  if (captured) text += " file " + captured->sha256.substr(0, 12);
  if (tile_rows > 0) text += fmt::format(" of {} rows", tile_rows);
  for (const auto& [tensor, elements] : strides) {
    text += " " + tensor + "@";
    for (size_t axis = 0; axis < elements.size(); ++axis)
      text += fmt::format("{}{}", axis == 0 ? "" : ",", elements[axis]);
  }
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

CasePlan plan_cases(const Target& target, const std::vector<SeamShape>& trainer_shapes, bool full,
                    int64_t largest_whole_case, const std::vector<CapturedCall>& captured) {
  Planner planner(target, full, largest_whole_case);
  planner.add_list(target.quick);
  for (const std::string& dtype : target.dtypes) {
    const auto first = std::find_if(target.quick.begin(), target.quick.end(),
                                    [&](const CaseShape& shape) { return shape.dtype == dtype; });
    if (first != target.quick.end()) planner.add_without_optionals(*first);
    const auto plain = std::find_if(target.quick.begin(), target.quick.end(), [&](const CaseShape& shape) {
      return shape.dtype == dtype && !is_degenerate(shape.axes);
    });
    if (plain == target.quick.end()) continue;
    planner.add_strided(*plain);
    planner.add_many_rows(*plain);
  }
  if (full) planner.add_list(target.full);
  for (const SeamShape& shape : trainer_shapes) planner.add_trainer(shape);
  for (const CapturedCall& call : captured) planner.add_captured(call);
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

std::vector<int64_t> strides_of(const TensorSpec& tensor, const CaseGroup& group) {
  const auto given = group.strides.find(tensor.name);
  return given == group.strides.end() ? std::vector<int64_t>{} : given->second;
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
