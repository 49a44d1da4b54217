#include <lab/bench/timed_check.hpp>

#include <lab/verify/parallel_rows.hpp>
#include <lab/verify/strided.hpp>
#include <lab/worker/draw.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

namespace kl {
namespace {

using Rows = std::vector<int64_t>;

constexpr int64_t kWholeElements = int64_t{4} << 20;  // beyond: in chunks, on all cores
constexpr int64_t kChunkElements = 1 << 16;

// A packed copy of the tensor, or of the given rows of it.
TensorData gather(const TensorData& like, const std::byte* data, const Rows* rows) {
  TensorData copy{like.name, like.dtype, like.shape, {}};
  if (data == nullptr) return copy.shape.clear(), copy;
  const Layout layout = Layout::of(like);
  if (rows == nullptr) {
    copy.bytes = kl::gather(layout, data);
    return copy;
  }
  copy.shape[0] = static_cast<int64_t>(rows->size());
  const Layout row = layout.row();
  for (const int64_t r : *rows) {
    const auto bytes = kl::gather(row, data + layout.row_offset(r));
    copy.bytes.insert(copy.bytes.end(), bytes.begin(), bytes.end());
  }
  return copy;
}

TensorData redraw(const TensorData& pool, const Draw& draw) {
  TensorData tensor = pool;
  draw_from_pool(pool.dtype, pool.bytes, draw.rotation, draw.factor, tensor.bytes.data());
  return tensor;
}

// True when an output that no row can show wrong is as it was before the call.
bool leaves_output_untouched(const FinishedCall& call, const OperationData& pool,
                             const std::string& row_axis) {
  for (size_t o = 0; o < pool.outputs.size(); ++o) {
    if (call.outputs[o] == nullptr || has_rows(call.operation->outputs[o], row_axis)) continue;
    TensorData before = pool.outputs[o];
    before.bytes.resize(Layout::of(before).bytes());
    if (call.base_draws[o])
      before = redraw(pool.outputs[o], *call.base_draws[o]);
    else
      poison(before.dtype, before.bytes.data(), Layout::of(before).span(), call.poison_pattern);
    if (std::memcmp(before.bytes.data(), call.outputs[o], before.bytes.size()) == 0) return true;
  }
  return false;
}

int64_t elements_of(const OperationData& data) {
  int64_t elements = 0;
  for (const auto* tensors : {&data.inputs, &data.outputs})
    for (const TensorData& tensor : *tensors) elements += tensor.size();
  return elements;
}

// One chunk's sums; what the output held before the call counts once.
void add_part(OracleOutput& sum, const OracleOutput& part, const TensorData& before, bool first) {
  if (sum.values.empty()) {
    sum = part;
    std::fill(sum.values.begin(), sum.values.end(), 0.0);
    std::fill(sum.terms.begin(), sum.terms.end(), 0.0);
  }
  const std::vector<double> base =
      before.bytes.empty() ? std::vector<double>(part.values.size()) : before.values();
  for (size_t i = 0; i < part.values.size(); ++i) {
    sum.values[i] += part.values[i] - (first ? 0 : base[i]);
    sum.terms[i] += part.terms[i] - (first ? 0 : std::fabs(base[i]));
  }
}

const OperationData& pool_of(const SeamCase& seam_case, const OperationSpec& spec) {
  return *std::find_if(seam_case.pool.operations.begin(), seam_case.pool.operations.end(),
                       [&](const OperationData& d) { return d.spec->index == spec.index; });
}

}  // namespace

Result<TimedCheck> TimedChecker::whole(const SeamCase& seam_case, const FinishedCall& call) const {
  const auto rows = seam_case.group.axes.find(target_.row_axis);
  if (elements_of(pool_of(seam_case, *call.operation)) <= kWholeElements ||
      rows == seam_case.group.axes.end() || !is_expandable(target_))
    return compare(seam_case, call, nullptr);
  return by_chunks(seam_case, call, rows->second);
}

std::vector<int64_t> TimedChecker::draw_rows(const SeamCase& seam_case, int count,
                                             std::mt19937_64& random) const {
  std::vector<int64_t> rows;
  const auto length = seam_case.group.axes.find(target_.row_axis);
  if (length == seam_case.group.axes.end()) return rows;
  for (int i = 0; i < count; ++i)
    rows.push_back(std::uniform_int_distribution<int64_t>(0, length->second - 1)(random));
  return rows;
}

Result<TimedCheck> TimedChecker::rows(const SeamCase& seam_case, const FinishedCall& call,
                                      const std::vector<int64_t>& rows) const {
  TimedCheck check;
  if (rows.empty()) return check;
  if (leaves_output_untouched(call, pool_of(seam_case, *call.operation), target_.row_axis)) {
    check.needs_whole = true;
    return check;
  }
  return compare(seam_case, call, &rows);
}

Result<OperationData> TimedChecker::taken(const SeamCase& seam_case, const FinishedCall& call,
                                          const Rows* rows) const {
  const OperationSpec& spec = *call.operation;
  const OperationData& pool = pool_of(seam_case, spec);
  OperationData data;
  data.spec = &spec;
  data.scalars = pool.scalars;
  const auto rows_of = [&](const TensorSpec& tensor) {
    return has_rows(tensor, target_.row_axis) ? rows : nullptr;
  };
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    data.inputs.push_back(gather(pool.inputs[i], call.inputs[i], rows_of(spec.inputs[i])));
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    TensorData before = pool.outputs[o];
    if (call.base_draws[o]) before = redraw(before, *call.base_draws[o]);
    const bool known = call.outputs[o] != nullptr && call.base_draws[o].has_value();
    TensorData part = gather(pool.outputs[o], known ? before.bytes.data() : call.outputs[o],
                             rows_of(spec.outputs[o]));
    if (!known) part.bytes.clear();
    data.outputs.push_back(std::move(part));
  }
  return data;
}

Outcome TimedChecker::judge_one(const SeamCase& seam_case, const FinishedCall& call, size_t output,
                                const OracleOutput& expected, const Rows* rows,
                                TimedCheck& check) const {
  const TensorSpec& spec = call.operation->outputs[output];
  const TensorData got = gather(pool_of(seam_case, *call.operation).outputs[output],
                                call.outputs[output],
                                has_rows(spec, target_.row_axis) ? rows : nullptr);
  KL_TRY(const int64_t terms, axis_length(spec.terms, seam_case.group.axes));
  const Bound bound = make_bound(target_, got.dtype, terms, true);
  const int pattern = spec.mode == OutputMode::write ? call.poison_pattern : -1;
  const OutputVerdict verdict = judge_output(expected, got.dtype, got.bytes, bound, pattern);
  check.elements += verdict.elements;
  if (verdict.passed() || check.failing) return {};
  const size_t at = static_cast<size_t>(verdict.first_failure);
  check.failing = describe_element(expected, got.dtype, got.bytes, verdict.first_failure,
                                   bound(expected.values[at], expected.terms[at]));
  check.failing->operation = call.operation->name;
  check.failing->case_name = seam_case.group.name();
  if (rows != nullptr && has_rows(spec, target_.row_axis) && !check.failing->index.empty())
    check.failing->index[0] = (*rows)[static_cast<size_t>(check.failing->index[0])];
  check.unwritten = verdict.unwritten;
  return {};
}

Result<TimedCheck> TimedChecker::compare(const SeamCase& seam_case, const FinishedCall& call,
                                         const Rows* rows) const {
  KL_TRY(const OperationData data, taken(seam_case, call, rows));
  KL_TRY(const auto expected, evaluate_operation(oracle_, data));
  TimedCheck check;
  for (size_t o = 0; o < expected.size(); ++o) {
    if (call.outputs[o] == nullptr) continue;
    if (rows != nullptr && !has_rows(call.operation->outputs[o], target_.row_axis)) continue;
    KL_CHECK(judge_one(seam_case, call, o, expected[o], rows, check));
  }
  return check;
}

// Rows in chunks on all cores: what has rows is judged by chunk, what has none is summed over the
// chunks and judged at the end. verify has asked the oracle whether that is allowed.
Result<TimedCheck> TimedChecker::by_chunks(const SeamCase& seam_case, const FinishedCall& call,
                                           int64_t row_count) const {
  const OperationSpec& spec = *call.operation;
  const int64_t row_elements =
      std::max<int64_t>(elements_of(pool_of(seam_case, spec)) / row_count, 1);
  const int64_t chunk = std::max<int64_t>(kChunkElements / row_elements, 1);
  std::mutex guard;
  TimedCheck check;
  Outcome outcome;
  std::vector<OracleOutput> sums(spec.outputs.size());
  const auto one_chunk = [&](int64_t first) {
    Rows rows(static_cast<size_t>(std::min(chunk, row_count - first)));
    std::iota(rows.begin(), rows.end(), first);
    auto data = taken(seam_case, call, &rows);
    auto expected = data.ok() ? evaluate_operation(oracle_, *data)
                              : Result<std::vector<OracleOutput>>(data.error());
    TimedCheck part;
    Outcome judged;
    for (size_t o = 0; expected.ok() && judged.ok() && o < expected->size(); ++o)
      if (call.outputs[o] != nullptr && has_rows(spec.outputs[o], target_.row_axis))
        judged = judge_one(seam_case, call, o, (*expected)[o], &rows, part);
    const std::lock_guard lock(guard);
    if (!expected.ok()) outcome = expected.error();
    if (!judged.ok()) outcome = judged;
    if (!outcome.ok()) return;
    check.elements += part.elements;
    if (part.failing && (!check.failing || part.failing->index < check.failing->index)) {
      check.failing = part.failing;
      check.unwritten = part.unwritten;
    }
    for (size_t o = 0; o < sums.size(); ++o)
      if (!has_rows(spec.outputs[o], target_.row_axis))
        add_part(sums[o], (*expected)[o], data->outputs[o], first == 0);
  };
  parallel_rows((row_count + chunk - 1) / chunk, 1, [&](int, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) one_chunk(c * chunk);
  });
  KL_CHECK(outcome);
  for (size_t o = 0; o < sums.size(); ++o)
    if (call.outputs[o] != nullptr && !has_rows(spec.outputs[o], target_.row_axis))
      KL_CHECK(judge_one(seam_case, call, o, sums[o], nullptr, check));
  return check;
}

}  // namespace kl
