#include <lab/verify/oracle_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace kl {

namespace {

// Edge distributions belong to the data that flows through the seam; parameters and incoming
// gradients stay normal, else a gradient of zeros would hide everything.
bool follows_distribution(const Target& target, const TensorSpec& tensor, bool forward) {
  if (!forward) return false;
  if (target.row_axis.empty()) return tensor.axes.size() > 1;
  return std::find(tensor.axes.begin(), tensor.axes.end(), target.row_axis) != tensor.axes.end();
}

Distribution distribution_of(const Target& target, const TensorSpec& tensor, bool forward,
                             Distribution wanted) {
  if (wanted == Distribution::permuted_rows || follows_distribution(target, tensor, forward))
    return wanted;
  const bool scale_free = wanted == Distribution::uniform || wanted == Distribution::heavy_tail;
  return scale_free ? wanted : Distribution::normal;
}

Result<Recipe> recipe_of(const Target& target, const TensorSpec& tensor, const CaseGroup& group,
                         std::span<const int64_t> shape, bool forward, Distribution wanted) {
  Recipe recipe;
  recipe.distribution = distribution_of(target, tensor, forward, wanted);
  recipe.kind = tensor.kind;
  recipe.row_length = shape.back();
  recipe.rows = element_count(shape) / std::max<int64_t>(recipe.row_length, 1);
  recipe.ignore = tensor.ignore;
  if (tensor.kind == InputKind::index) {
    KL_TRY(recipe.index_bound, axis_length(tensor.index_bound, group.axes));
  }
  return recipe;
}

// Rows come first in what has them, so fewer of them are the first bytes.
bool take_captured(const CaseGroup& group, const std::string& name, TensorData& data) {
  if (!group.captured) return false;
  const auto found = group.captured->bytes.find(name);
  const size_t wanted = static_cast<size_t>(data.size()) * element_bytes(data.dtype);
  if (found == group.captured->bytes.end() || found->second.size() < wanted) return false;
  data.bytes.assign(found->second.begin(), found->second.begin() + static_cast<std::ptrdiff_t>(wanted));
  return true;
}

// `captured_name`: of its contents among a group's captured ones.
Result<TensorData> draw_tensor(const Target& target, const TensorSpec& tensor,
                               const CaseGroup& group, bool forward, Distribution wanted,
                               uint64_t seed, const std::string& captured_name) {
  TensorData data;
  data.name = tensor.name;
  KL_TRY(data.dtype, dtype_of(tensor, group));
  KL_TRY(data.shape, shape_of(tensor, group));
  if (!data.present()) return data;
  data.strides = strides_of(tensor, group);
  if (take_captured(group, captured_name, data)) return data;
  if (wanted == Distribution::captured) wanted = Distribution::normal;
  KL_TRY(const Recipe recipe, recipe_of(target, tensor, group, data.shape, forward, wanted));
  data.bytes.resize(static_cast<size_t>(data.size()) * element_bytes(data.dtype));
  fill(data.dtype, recipe, derive_seed(seed, tensor.name), data.bytes.data());
  return data;
}

// An oracle's view of one tensor.
oracle::Tensor view(const std::string& name, const std::vector<int64_t>& shape,
                    std::vector<double>& values, std::vector<double>* terms) {
  return {name.c_str(), static_cast<int32_t>(shape.size()), shape.data(), values.data(),
          terms == nullptr ? nullptr : terms->data()};
}

OracleOutput empty_output(const TensorData& tensor) {
  OracleOutput output{tensor.name, tensor.shape, {}, {}};
  output.values = tensor.bytes.empty() ? std::vector<double>(static_cast<size_t>(tensor.size()))
                                       : tensor.values();
  output.terms.resize(output.values.size());
  return output;
}

void feed_forward_outputs(const OperationData& forward, const std::vector<OracleOutput>& outputs,
                          OperationData& later) {
  for (TensorData& input : later.inputs)
    for (size_t i = 0; i < outputs.size(); ++i)
      if (input.present() && forward.outputs[i].name == input.name)
        from_doubles(input.dtype, outputs[i].values, input.bytes.data());
}

// Rows [first, first + count) of the tile.
OperationData rows_of_tile(const OperationData& tile, const RowExpansion& expansion, int64_t first,
                           int64_t count) {
  OperationData part = tile;
  const auto cut = [&](const TensorSpec& spec, TensorData& tensor) {
    if (!tensor.present() || !has_rows(spec, expansion.axis)) return;
    tensor.shape[0] = count;
    if (tensor.bytes.empty()) return;
    const size_t row = tensor.bytes.size() / static_cast<size_t>(expansion.tile_rows);
    const auto begin = tensor.bytes.begin() + static_cast<std::ptrdiff_t>(row) * first;
    tensor.bytes = {begin, begin + static_cast<std::ptrdiff_t>(row) * count};
  };
  for (size_t i = 0; i < part.inputs.size(); ++i) cut(part.spec->inputs[i], part.inputs[i]);
  for (size_t o = 0; o < part.outputs.size(); ++o) cut(part.spec->outputs[o], part.outputs[o]);
  return part;
}

std::vector<double> base_of(const TensorData& output) {
  return output.bytes.empty() ? std::vector<double>(static_cast<size_t>(output.size()))
                              : output.values();
}

// Outputs without rows, from the tile's sums to those over all rows.
Outcome sum_over_rows(const OracleLibrary& oracle, const OperationData& tile,
                      const RowExpansion& expansion, std::vector<OracleOutput>& outputs) {
  std::vector<OracleOutput> rest;
  if (expansion.remainder() > 0) {
    KL_TRY(rest, evaluate_operation(
                     oracle, rows_of_tile(tile, expansion, 0, expansion.remainder())));
  }
  const auto repeats = static_cast<double>(expansion.repeats());
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!tile.outputs[o].present() || has_rows(tile.spec->outputs[o], expansion.axis)) continue;
    const std::vector<double> base = base_of(tile.outputs[o]);
    for (size_t i = 0; i < base.size(); ++i) {
      double& value = outputs[o].values[i];
      double& terms = outputs[o].terms[i];
      const double before = std::fabs(base[i]);
      value = base[i] + repeats * (value - base[i]);
      terms = before + repeats * (terms - before);
      if (rest.empty()) continue;
      value += rest[o].values[i] - base[i];
      terms += rest[o].terms[i] - before;
    }
  }
  return {};
}

Error not_expandable(const OperationData& operation, const std::string& output) {
  return make_error(
      Status::unsupported_target,
      fmt::format("{} of {} at this size is judged row by row, and its oracle does not allow that: "
                  "a row depends on others or on their number, or a sum over rows is none",
                  output, operation.spec->name),
      "verify at a preset with smaller shapes, or remove row_axis from spec.toml");
}

// The oracle's answer for the tile in two halves is its answer for the whole.
Outcome check_operation(const OracleLibrary& oracle, const OperationData& tile,
                        const std::vector<OracleOutput>& whole, const RowExpansion& expansion) {
  constexpr double kRoundOff = 1e-9;
  const int64_t half = expansion.tile_rows / 2;
  KL_TRY(const auto first, evaluate_operation(oracle, rows_of_tile(tile, expansion, 0, half)));
  KL_TRY(const auto second,
         evaluate_operation(
             oracle, rows_of_tile(tile, expansion, half, expansion.tile_rows - half)));
  for (size_t o = 0; o < whole.size(); ++o) {
    if (!tile.outputs[o].present()) continue;
    const bool rows = has_rows(tile.spec->outputs[o], expansion.axis);
    const std::vector<double> base = rows ? std::vector<double>() : base_of(tile.outputs[o]);
    for (size_t i = 0; i < whole[o].values.size(); ++i) {
      const size_t split = first[o].values.size();
      const double parts = !rows       ? first[o].values[i] + second[o].values[i] - base[i]
                           : i < split ? first[o].values[i]
                                       : second[o].values[i - split];
      const double error = std::fabs(parts - whole[o].values[i]);
      if (!(error <= kRoundOff * whole[o].terms[i])) return not_expandable(tile, whole[o].name);
    }
  }
  return {};
}

}  // namespace

Outcome check_expansion(const OracleLibrary& oracle, const CaseData& tile) {
  for (const OperationData& operation : tile.operations) {
    KL_TRY(const auto whole, evaluate_operation(oracle, operation));
    KL_CHECK(check_operation(oracle, operation, whole, *tile.expansion));
  }
  return {};
}

uint64_t case_seed(uint64_t run_seed, const CaseGroup& group, const Case& item) {
  // `permuted-rows` holds the rows of `normal`, so the distribution is not part of the stream.
  return derive_seed(run_seed + static_cast<uint64_t>(item.seed_index), group.name());
}

Result<CaseData> draw_case(const Target& target, const CaseGroup& group, const Case& item,
                           uint64_t seed) {
  if (group.tile_rows > 0) {
    CaseGroup tile = group;
    tile.tile_rows = 0;
    tile.axes[target.row_axis] = group.tile_rows;
    KL_TRY(CaseData data, draw_case(target, tile, item, seed));
    data.expansion = std::make_shared<const RowExpansion>(
        RowExpansion::create(target.row_axis, group.axes.at(target.row_axis), group.tile_rows,
                             derive_seed(seed, "order of rows")));
    return data;
  }
  CaseData data;
  std::map<std::string, TensorData> drawn;
  for (const OperationSpec& operation : target.operations) {
    OperationData& call = data.operations.emplace_back();
    call.spec = &operation;
    call.scalars = scalars_of(operation, group);
    for (const TensorSpec& input : operation.inputs) {
      if (!drawn.contains(input.name)) {
        KL_TRY(drawn[input.name], draw_tensor(target, input, group, operation.index == KL_FORWARD,
                                              item.distribution, seed, input.name));
      }
      call.inputs.push_back(drawn[input.name]);
    }
    for (const TensorSpec& output : operation.outputs) {
      const uint64_t base_seed = derive_seed(seed, "base of " + operation.name);
      KL_TRY(TensorData tensor,
             draw_tensor(target, output, group, false, Distribution::normal, base_seed, before_name(operation.name, output.name)));
      if (output.mode == OutputMode::write) tensor.bytes.clear();
      call.outputs.push_back(std::move(tensor));
    }
  }
  return data;
}

Result<std::vector<OracleOutput>> evaluate_operation(const OracleLibrary& oracle,
                                                     const OperationData& data) {
  std::vector<std::vector<double>> input_values;
  std::vector<OracleOutput> outputs;
  for (const TensorData& input : data.inputs) input_values.push_back(input.values());
  for (const TensorData& output : data.outputs) outputs.push_back(empty_output(output));

  std::vector<oracle::Tensor> inputs, results;
  for (size_t i = 0; i < data.inputs.size(); ++i)
    inputs.push_back(view(data.inputs[i].name, data.inputs[i].shape, input_values[i], nullptr));
  for (OracleOutput& output : outputs)
    results.push_back(view(output.name, output.shape, output.values, &output.terms));
  const oracle::CallTable call{data.spec->index,
                               static_cast<int32_t>(inputs.size()),
                               static_cast<int32_t>(results.size()),
                               static_cast<int32_t>(data.scalars.size()),
                               inputs.data(),
                               results.data(),
                               data.scalars.data()};
  if (const int code = oracle.table().evaluate(&call); code != 0)
    return make_error(Status::unsupported_target,
                      fmt::format("the oracle refuses {} with code {}", data.spec->name, code),
                      "make spec.toml and oracle.cpp of the target agree");
  return outputs;
}

Outcome evaluate_case(const OracleLibrary& oracle, CaseData& data) {
  data.expected.clear();
  for (size_t i = 0; i < data.operations.size(); ++i) {
    if (i > 0) feed_forward_outputs(data.operations[0], data.expected[0], data.operations[i]);
    KL_TRY(auto outputs, evaluate_operation(oracle, data.operations[i]));
    if (data.expansion)
      KL_CHECK(sum_over_rows(oracle, data.operations[i], *data.expansion, outputs));
    data.expected.push_back(std::move(outputs));
  }
  return {};
}

}  // namespace kl
