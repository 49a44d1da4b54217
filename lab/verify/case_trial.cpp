#include <lab/verify/case_trial.hpp>

#include <lab/verify/null_candidates.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>

namespace kl {

namespace {

std::string element_text(const FailingElement& failing) {
  std::string index;
  for (const int64_t i : failing.index) index += fmt::format("{}{}", index.empty() ? "" : ",", i);
  return fmt::format("{} {}[{}] = {}, expected {:.9g}, bound {:.3g}", failing.operation,
                     failing.output, index, failing.got_text, failing.expected, failing.bound);
}

CaseFailure mismatch(const TrialContext& context, const OperationData& operation,
                     FailingElement failing, std::string rule) {
  failing.case_name = context.name();
  failing.operation = operation.spec->name;
  return {Status::mismatch, std::move(rule),
          fmt::format("case \"{}\": {}", context.name(), element_text(failing)), failing};
}

Bound bound_for(const TrialContext& context, const OperationData& operation, size_t output) {
  // Where the data is subnormal, products underflow before a kernel scales them up again (rmsnorm
  // by up to 1/sqrt(eps)): absolute rounding errors grow by that scale. A flushed value is still
  // far out.
  constexpr double kUnderflowScale = 0x1p12;
  // The plan's shapes were drawn already, so every axis has a length.
  const int64_t terms = term_count(operation.spec->outputs[output], *context.group).value();
  Bound bound = make_bound(*context.target, operation.outputs[output].dtype, terms,
                           is_random(context.item->distribution));
  if (context.item->distribution == Distribution::subnormals)
    bound.smallest_normal *= kUnderflowScale;
  return bound;
}

std::optional<size_t> first_different(const std::vector<OutputBytes>& a,
                                      const std::vector<OutputBytes>& b) {
  for (size_t op = 0; op < a.size(); ++op)
    if (a[op] != b[op]) return op;
  return std::nullopt;
}

void settle_check(const CallSite& site, const std::vector<OutputBytes>& outputs,
                  const TrialContext& context, std::chrono::microseconds settle,
                  CaseResult& result) {
  std::this_thread::sleep_for(settle);
  for (size_t op = 0; op < outputs.size() && !result.failure; ++op)
    if (const auto fault = site.check_settled(op, outputs[op]))
      result.failure = failure_of(*fault, context.name());
}

// The second run of a case is over large values: of either sign, in one case or another.
int second_pattern(const Case& item) { return 1 + item.seed_index % 2; }

// The second run differs from the first: wrong, or right but not repeatable.
void judge_repeat(const TrialContext& context, const CaseData& data, std::vector<OutputBytes> again,
                  int pattern, CaseResult& result) {
  const auto different = first_different(result.outputs, again);
  if (!different) return;
  result.repeatable = false;
  const CaseResult second = judge_case(context, data, std::move(again), pattern);
  if (second.failure) {
    result.failure = second.failure;
    result.failure->rule = "depends-on-old-contents";
  } else if (context.target->bitwise_repeatable) {
    result.failure = CaseFailure{
        Status::rejected, "not-repeatable",
        fmt::format("case \"{}\": two calls of {} with the same inputs gave different bits",
                    context.name(), data.operations[*different].spec->name),
        std::nullopt};
  }
}

// What the replay of a captured graph left, where it differs from the plain run.
void judge_replay(const CallSite& site, const TrialContext& context, const CaseData& data,
                  int pattern, CaseResult& result) {
  if (site.replays().empty()) return;
  result.repeatable = false;
  std::vector<OutputBytes> outputs = result.outputs;
  for (const auto& [operation, bytes] : site.replays()) outputs[operation] = bytes;
  const CaseResult replayed = judge_case(context, data, std::move(outputs), pattern);
  if (replayed.failure) {
    result.failure = replayed.failure;
    result.failure->rule = "wrong-under-capture";
  } else if (context.target->bitwise_repeatable) {
    result.failure = CaseFailure{
        Status::rejected, "not-repeatable",
        fmt::format("case \"{}\": the replay of a captured graph gave other bits than the call",
                    context.name()),
        std::nullopt};
  }
}

}  // namespace

CaseFailure failure_of(const Fault& fault, const std::string& where) {
  return {fault.status, fault.rule, fmt::format("case \"{}\": {}", where, fault.proof),
          std::nullopt};
}

CaseResult judge_case(const TrialContext& context, const CaseData& data,
                      std::vector<OutputBytes> outputs, int poison_pattern) {
  CaseResult result;
  result.outputs = std::move(outputs);
  for (size_t op = 0; op < data.operations.size(); ++op) {
    const OperationData& operation = data.operations[op];
    auto& verdicts = result.verdicts.emplace_back();
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const TensorData& tensor = operation.outputs[i];
      if (!tensor.present()) {
        verdicts.emplace_back();
        continue;
      }
      const OracleOutput& expected = data.expected[op][i];
      const RowExpansion* rows = data.rows_of(operation.spec->outputs[i]);
      const std::span<const std::byte> got = result.outputs[op][i];
      const Bound bound = bound_for(context, operation, i);
      const OutputVerdict verdict = judge_output(expected, tensor.dtype, got, bound,
                                                 tensor.bytes.empty() ? poison_pattern : -1, rows);
      result.elements += verdict.elements;
      result.worst_fraction = std::max(result.worst_fraction, verdict.worst_fraction);
      if (!verdict.passed() && !result.failure) {
        const size_t at = expected_at(expected, verdict.first_failure, rows);
        result.failure =
            mismatch(context, operation,
                     describe_element(expected, tensor.dtype, got, verdict.first_failure,
                                      bound(expected.values[at], expected.terms[at]), rows),
                     verdict.unwritten ? "unwritten-output" : "beyond-bound");
      }
      verdicts.push_back(verdict);
    }
  }
  return result;
}

OrFault<std::vector<OutputBytes>> run_all(CallSite& site, const CaseData& data,
                                          int poison_pattern) {
  KL_FAULT_TRY([[maybe_unused]] const auto written, site.write(data, poison_pattern));
  std::vector<OutputBytes> outputs;
  for (size_t op = 0; op < data.operations.size(); ++op) {
    KL_FAULT_TRY(OutputBytes bytes, site.run(op, poison_pattern));
    outputs.push_back(std::move(bytes));
  }
  if (const auto fault = site.check_inputs(data)) return *fault;
  return outputs;
}

CaseResult try_case(CallSite& site, const TrialContext& context, const CaseData& data,
                    std::chrono::microseconds settle, bool again) {
  CaseResult result;
  auto first = run_all(site, data, 0);
  if (const auto* fault = std::get_if<Fault>(&first)) {
    result.failure = failure_of(*fault, context.name());
    return result;
  }
  result = judge_case(context, data, std::get<0>(std::move(first)), 0);
  if (!result.failure) judge_replay(site, context, data, 0, result);
  settle_check(site, result.outputs, context, settle, result);
  if (result.failure || !again) return result;
  const int pattern = second_pattern(*context.item);
  auto second = run_all(site, data, pattern);
  if (const auto* fault = std::get_if<Fault>(&second))
    result.failure = failure_of(*fault, context.name());
  else
    judge_repeat(context, data, std::get<0>(std::move(second)), pattern, result);
  if (!result.failure) judge_replay(site, context, data, pattern, result);
  return result;
}

std::optional<CaseFailure> compare_with_champion(const TrialContext& context, const CaseData& data,
                                                 const CaseResult& candidate,
                                                 const CaseResult& champion) {
  for (size_t op = 0; op < data.operations.size(); ++op)
    for (size_t i = 0; i < data.operations[op].outputs.size(); ++i) {
      const TensorData& tensor = data.operations[op].outputs[i];
      if (!tensor.present()) continue;
      const OracleOutput& expected = data.expected[op][i];
      const OutputVerdict& mine = candidate.verdicts[op][i];
      const OutputVerdict& theirs = champion.verdicts[op][i];
      const double error =
          theirs.passed() ? theirs.max_error : std::numeric_limits<double>::infinity();
      const double cap = champion_cap(context.target->champion_k, error, largest_value(expected),
                                      mine.elements, tensor.dtype);
      if (mine.beyond_plain <= cap) continue;
      const RowExpansion* rows = data.rows_of(data.operations[op].spec->outputs[i]);
      const size_t at = expected_at(expected, mine.worst_beyond_plain, rows);
      const double plain =
          bound_for(context, data.operations[op], i).plain(expected.values[at], expected.terms[at]);
      return mismatch(
          context, data.operations[op],
          describe_element(expected, tensor.dtype, candidate.outputs[op][i],
                           mine.worst_beyond_plain, std::max(cap, plain), rows),
          "worse-than-champion");
    }
  return std::nullopt;
}

}  // namespace kl
