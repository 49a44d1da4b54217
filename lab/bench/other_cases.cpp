#include <lab/bench/other_cases.hpp>

#include <algorithm>

namespace kl {
namespace {

constexpr size_t kMostCases = 2;
constexpr int64_t kSmallestVolume = 4096;
constexpr int64_t kLongAxis = 4096;

int64_t volume(const std::map<std::string, int64_t>& axes) {
  int64_t product = 1;
  for (const auto& [name, length] : axes) product *= length;
  return product;
}

// Listed so that verify tries what kernels do with long rows; few of them say nothing of a step's time.
bool is_longer_than_the_step(const CaseShape& item, const std::vector<SeamShape>& step) {
  return std::any_of(item.axes.begin(), item.axes.end(), [&](const auto& axis) {
    return axis.second > kLongAxis && std::all_of(step.begin(), step.end(), [&](const SeamShape& shape) {
             const auto same = shape.axes.find(axis.first);
             return same == shape.axes.end() || same->second < axis.second;
           });
  });
}

}  // namespace

std::vector<SeamShape> cases_beside_the_step(const Target& target,
                                             const std::vector<SeamShape>& step) {
  int64_t largest = 0;
  for (const SeamShape& shape : step) largest = std::max(largest, volume(shape.axes));
  const auto in_step = [&](const CaseShape& item) {
    return std::any_of(step.begin(), step.end(), [&](const SeamShape& shape) {
      return shape.axes == item.axes && shape.dtype == item.dtype;
    });
  };
  std::vector<SeamShape> beside;
  for (const auto* list : {&target.quick, &target.full})
    for (const CaseShape& item : *list) {
      const int64_t size = volume(item.axes);
      if (size < kSmallestVolume || size > largest / 2 || in_step(item) || is_longer_than_the_step(item, step))
        continue;
      const auto model = std::find_if(step.begin(), step.end(), [&](const SeamShape& shape) {
        return shape.dtype == item.dtype;
      });
      const bool known = std::any_of(beside.begin(), beside.end(), [&](const SeamShape& shape) {
        return shape.axes == item.axes && shape.dtype == item.dtype;
      });
      if (model == step.end() || known) continue;
      SeamShape shape = *model;  // its scalars and absent tensors
      shape.axes = item.axes;
      shape.strides.clear();  // they fit the trainer's lengths alone
      for (const OperationSpec& operation : target.operations)
        shape.calls_per_step[operation.name] = 0;
      beside.push_back(std::move(shape));
    }
  std::stable_sort(beside.begin(), beside.end(), [](const SeamShape& a, const SeamShape& b) {
    return volume(a.axes) > volume(b.axes);
  });
  if (beside.size() > kMostCases) beside.resize(kMostCases);
  return beside;
}

}  // namespace kl
