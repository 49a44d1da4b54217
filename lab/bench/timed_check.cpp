#include <lab/bench/timed_check.hpp>

#include <algorithm>
#include <cstring>

namespace kl {
namespace {

using Rows = std::vector<int64_t>;

bool has_rows(const TensorSpec& tensor, const std::string& row_axis) {
  return !row_axis.empty() && !tensor.axes.empty() && tensor.axes.front() == row_axis;
}
// Neither rows of it nor the whole can stand for the whole case: a sum over rows, for example.
bool mentions_rows_elsewhere(const TensorSpec& tensor, const std::string& row_axis) {
  return std::find(tensor.axes.begin() + (tensor.axes.empty() ? 0 : 1), tensor.axes.end(),
                   row_axis) != tensor.axes.end();
}

// A packed copy of the tensor, or of the given rows of it.
TensorData gather(const TensorData& like, const std::byte* data, const Rows* rows) {
  TensorData copy{like.name, like.dtype, like.shape, {}};
  if (data == nullptr) return copy.shape.clear(), copy;
  const size_t width = element_bytes(like.dtype);
  if (rows == nullptr) {
    copy.bytes.assign(data, data + static_cast<size_t>(like.size()) * width);
    return copy;
  }
  const size_t row_bytes = static_cast<size_t>(like.size() / like.shape[0]) * width;
  copy.shape[0] = static_cast<int64_t>(rows->size());
  copy.bytes.resize(rows->size() * row_bytes);
  for (size_t i = 0; i < rows->size(); ++i)
    std::memcpy(copy.bytes.data() + i * row_bytes,
                data + static_cast<size_t>((*rows)[i]) * row_bytes, row_bytes);
  return copy;
}

TensorData redraw(const TensorData& pool, const Draw& draw) {
  TensorData tensor = pool;
  write_draw(pool, draw, tensor.bytes.data());
  return tensor;
}

bool row_by_row(const TensorSpec& output, const std::string& row_axis) {
  return has_rows(output, row_axis) && !mentions_rows_elsewhere(output, row_axis);
}

// True when an output that no row can show wrong is as it was before the call.
bool leaves_output_untouched(const FinishedCall& call, const OperationData& pool,
                             const std::string& row_axis) {
  for (size_t o = 0; o < pool.outputs.size(); ++o) {
    if (call.outputs[o] == nullptr || row_by_row(call.operation->outputs[o], row_axis)) continue;
    TensorData before = pool.outputs[o];
    before.bytes.resize(static_cast<size_t>(before.size()) * element_bytes(before.dtype));
    if (call.base_draws[o])
      write_draw(pool.outputs[o], *call.base_draws[o], before.bytes.data());
    else
      poison(before.dtype, before.bytes.data(), before.size(), call.poison_pattern);
    if (std::memcmp(before.bytes.data(), call.outputs[o], before.bytes.size()) == 0) return true;
  }
  return false;
}

const OperationData& pool_of(const SeamCase& seam_case, const OperationSpec& spec) {
  return *std::find_if(seam_case.pool.operations.begin(), seam_case.pool.operations.end(),
                       [&](const OperationData& d) { return d.spec->index == spec.index; });
}

}  // namespace

Result<TimedCheck> TimedChecker::whole(const SeamCase& seam_case, const FinishedCall& call) const {
  return compare(seam_case, call, nullptr);
}

Result<TimedCheck> TimedChecker::rows(const SeamCase& seam_case, const FinishedCall& call,
                                      int count, std::mt19937_64& random) const {
  const auto length = seam_case.group.axes.find(target_.row_axis);
  if (length == seam_case.group.axes.end()) return TimedCheck{};
  if (leaves_output_untouched(call, pool_of(seam_case, *call.operation), target_.row_axis))
    return whole(seam_case, call);
  Rows rows;
  for (int i = 0; i < count; ++i)
    rows.push_back(std::uniform_int_distribution<int64_t>(0, length->second - 1)(random));
  return compare(seam_case, call, &rows);
}

Result<TimedCheck> TimedChecker::compare(const SeamCase& seam_case, const FinishedCall& call,
                                         const Rows* rows) const {
  const OperationSpec& spec = *call.operation;
  const OperationData* pool = &pool_of(seam_case, spec);
  OperationData data;
  data.spec = &spec;
  data.scalars = pool->scalars;
  const auto rows_of = [&](const TensorSpec& tensor) {
    return has_rows(tensor, target_.row_axis) ? rows : nullptr;
  };
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    data.inputs.push_back(gather(pool->inputs[i], call.inputs[i], rows_of(spec.inputs[i])));
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    TensorData before = pool->outputs[o];
    if (call.base_draws[o]) before = redraw(before, *call.base_draws[o]);
    const bool known = call.outputs[o] != nullptr && call.base_draws[o].has_value();
    TensorData part = gather(pool->outputs[o], known ? before.bytes.data() : call.outputs[o],
                             rows_of(spec.outputs[o]));
    if (!known) part.bytes.clear();
    data.outputs.push_back(std::move(part));
  }
  KL_TRY(const auto expected, evaluate_operation(oracle_, data));

  TimedCheck check;
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    const TensorSpec& output = spec.outputs[o];
    if (call.outputs[o] == nullptr) continue;
    if (rows != nullptr && !row_by_row(output, target_.row_axis)) continue;
    const TensorData got = gather(pool->outputs[o], call.outputs[o], rows_of(output));
    KL_TRY(const int64_t terms, axis_length(output.terms, seam_case.group.axes));
    const Bound bound = make_bound(target_, got.dtype, terms, true);
    const int pattern = output.mode == OutputMode::write ? call.poison_pattern : -1;
    const OutputVerdict verdict = judge_output(expected[o], got.dtype, got.bytes, bound, pattern);
    check.elements += verdict.elements;
    if (verdict.passed() || check.failing) continue;
    const size_t at = static_cast<size_t>(verdict.first_failure);
    check.failing = describe_element(expected[o], got.dtype, got.bytes, verdict.first_failure,
                                     bound(expected[o].values[at], expected[o].terms[at]));
    check.failing->operation = spec.name;
    check.failing->case_name = seam_case.group.name();
    if (rows != nullptr && !check.failing->index.empty())
      check.failing->index[0] = (*rows)[static_cast<size_t>(check.failing->index[0])];
    check.unwritten = verdict.unwritten;
  }
  return check;
}

}  // namespace kl
