#include <lab/verify/oracle_run.hpp>

#include <fmt/format.h>

#include <algorithm>
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

Result<TensorData> draw_tensor(const Target& target, const TensorSpec& tensor,
                               const CaseGroup& group, bool forward, Distribution wanted,
                               uint64_t seed) {
  TensorData data;
  data.name = tensor.name;
  KL_TRY(data.dtype, dtype_of(tensor, group));
  KL_TRY(data.shape, shape_of(tensor, group));
  if (!data.present()) return data;
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

}  // namespace

uint64_t case_seed(uint64_t run_seed, const CaseGroup& group, const Case& item) {
  // `permuted-rows` holds the rows of `normal`, so the distribution is not part of the stream.
  return derive_seed(run_seed + static_cast<uint64_t>(item.seed_index), group.name());
}

Result<CaseData> draw_case(const Target& target, const CaseGroup& group, const Case& item,
                           uint64_t seed) {
  CaseData data;
  std::map<std::string, TensorData> drawn;
  for (const OperationSpec& operation : target.operations) {
    OperationData& call = data.operations.emplace_back();
    call.spec = &operation;
    call.scalars = scalars_of(operation, group);
    for (const TensorSpec& input : operation.inputs) {
      if (!drawn.contains(input.name)) {
        KL_TRY(drawn[input.name], draw_tensor(target, input, group, operation.index == KL_FORWARD,
                                              item.distribution, seed));
      }
      call.inputs.push_back(drawn[input.name]);
    }
    for (const TensorSpec& output : operation.outputs) {
      const uint64_t base_seed = derive_seed(seed, "base of " + operation.name);
      KL_TRY(TensorData tensor,
             draw_tensor(target, output, group, false, Distribution::normal, base_seed));
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
    data.expected.push_back(std::move(outputs));
  }
  return {};
}

}  // namespace kl
