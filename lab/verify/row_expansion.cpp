#include <lab/verify/row_expansion.hpp>

#include <algorithm>
#include <random>

namespace kl {

namespace {

constexpr int64_t kTileElements = int64_t{1} << 20;
constexpr int64_t kFewestRows = 64;

int64_t elements_of(const TensorSpec& tensor, const CaseGroup& group) {
  const auto shape = shape_of(tensor, group);
  return shape.ok() ? element_count(*shape) : 0;
}

}  // namespace

RowExpansion RowExpansion::create(std::string axis, int64_t rows, int64_t tile_rows,
                                  uint64_t seed) {
  RowExpansion expansion{std::move(axis), rows, tile_rows, {}};
  expansion.source.resize(static_cast<size_t>(rows));
  for (size_t r = 0; r < expansion.source.size(); ++r)
    expansion.source[r] = static_cast<uint32_t>(r % static_cast<size_t>(tile_rows));
  std::mt19937_64 random(seed);
  std::shuffle(expansion.source.begin(), expansion.source.end(), random);
  return expansion;
}

bool has_rows(const TensorSpec& tensor, const std::string& row_axis) {
  return !row_axis.empty() && !tensor.axes.empty() && tensor.axes.front() == row_axis &&
         std::find(tensor.axes.begin() + 1, tensor.axes.end(), row_axis) == tensor.axes.end();
}

bool is_expandable(const Target& target) {
  for (const OperationSpec& operation : target.operations)
    for (const auto* tensors : {&operation.inputs, &operation.outputs})
      for (const TensorSpec& tensor : *tensors)
        if (std::find(tensor.axes.begin(), tensor.axes.end(), target.row_axis) !=
                tensor.axes.end() &&
            !has_rows(tensor, target.row_axis))
          return false;
  return !target.row_axis.empty();
}

int64_t output_elements(const Target& target, const CaseGroup& group) {
  int64_t elements = 0;
  for (const OperationSpec& operation : target.operations)
    for (const TensorSpec& output : operation.outputs) elements += elements_of(output, group);
  return elements;
}

int64_t tile_rows_of(const Target& target, const CaseGroup& group, int64_t largest_elements) {
  const auto rows = group.axes.find(target.row_axis);
  if (rows == group.axes.end() || !group.strides.empty() || !is_expandable(target)) return 0;
  int64_t widest_row = 1;
  for (const OperationSpec& operation : target.operations)
    for (const auto* tensors : {&operation.inputs, &operation.outputs})
      for (const TensorSpec& tensor : *tensors)
        if (has_rows(tensor, target.row_axis))
          widest_row = std::max(widest_row, elements_of(tensor, group) / rows->second);
  if (output_elements(target, group) <= largest_elements) return 0;
  const int64_t tile = std::max(kTileElements / widest_row, kFewestRows);
  return tile < rows->second ? tile : 0;
}

}  // namespace kl
