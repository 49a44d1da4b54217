#include <lab/verify/null_candidates.hpp>

#include <fmt/format.h>

#include <cmath>

namespace kl {

namespace {

struct NullAnswer {
  std::string name;
  std::vector<double> values;
};

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

std::vector<NullAnswer> null_answers(const OperationData& operation, size_t output,
                                     const OracleOutput& expected, const OracleOutput* other) {
  const TensorData& before = operation.outputs[output];
  std::vector<NullAnswer> answers;
  if (before.bytes.empty())
    answers.push_back({"zeros", std::vector<double>(expected.values.size())});
  else
    answers.push_back({"an unchanged output", before.values()});
  if (other != nullptr) answers.push_back({"the previous output", other->values});
  // The mean of one element is the element.
  if (expected.values.size() > 1)
    answers.push_back(
        {"the mean", std::vector<double>(expected.values.size(), mean_of(expected.values))});
  for (const TensorData& input : operation.inputs)
    if (input.shape == expected.shape && input.present())
      answers.push_back({"a copy of " + input.name, input.values()});
  return answers;
}

// True when every element would be accepted; stops at the first that is not.
bool would_pass(const std::vector<double>& answer, const OracleOutput& expected,
                const Bound& bound) {
  for (size_t i = 0; i < answer.size(); ++i) {
    const double error = std::fabs(answer[i] - expected.values[i]);
    if (!(error <= bound(expected.values[i], expected.terms[i]))) return false;
  }
  return true;
}

Result<Bound> bound_of(const Target& target, const CaseGroup& group, const Case& item,
                       const OperationData& operation, size_t output) {
  KL_TRY(const int64_t terms, term_count(operation.spec->outputs[output], group));
  return make_bound(target, operation.outputs[output].dtype, terms, is_random(item.distribution));
}

Error weak_case(const Target& target, const CaseGroup& group, const Case& item,
                std::string_view why) {
  return make_error(Status::unsupported_target,
                    fmt::format("case \"{}\" of {} cannot tell right from wrong: {}",
                                case_name(group, item), target.key, why),
                    "change the case list, the output's terms or bound_c in " +
                        (target.folder / "spec.toml").string());
}

}  // namespace

Result<int64_t> term_count(const TensorSpec& output, const CaseGroup& group) {
  return axis_length(output.terms, group.axes);
}

Outcome audit_null_candidates(const Target& target, const CaseGroup& group, const Case& item,
                              const CaseData& data, const CaseData* other) {
  for (size_t op = 0; op < data.operations.size(); ++op) {
    const OperationData& operation = data.operations[op];
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      if (!operation.outputs[i].present()) continue;
      const OracleOutput& expected = data.expected[op][i];
      KL_TRY(const Bound bound, bound_of(target, group, item, operation, i));
      const OracleOutput* previous = other == nullptr ? nullptr : &other->expected[op][i];
      for (const NullAnswer& answer : null_answers(operation, i, expected, previous))
        if (would_pass(answer.values, expected, bound))
          return weak_case(target, group, item,
                           fmt::format("{} passes as {} of {}", answer.name, expected.name,
                                       operation.spec->name));
    }
  }
  return {};
}

Outcome audit_sensitivity(const OracleLibrary& oracle, const Target& target, const CaseGroup& group,
                          const Case& item, const CaseData& data, const CaseData& other) {
  for (size_t op = 0; op < data.operations.size(); ++op) {
    for (size_t input = 0; input < data.operations[op].inputs.size(); ++input) {
      if (!data.operations[op].inputs[input].present()) continue;
      OperationData changed = data.operations[op];
      changed.inputs[input] = other.operations[op].inputs[input];
      KL_TRY(const auto moved, evaluate_operation(oracle, changed));
      bool within = true;
      for (size_t i = 0; i < moved.size() && within; ++i) {
        if (!changed.outputs[i].present()) continue;
        KL_TRY(const Bound bound, bound_of(target, group, item, changed, i));
        within = would_pass(moved[i].values, data.expected[op][i], bound);
      }
      if (within)
        return weak_case(target, group, item,
                         fmt::format("changing input {} of {} moves no output beyond its bound",
                                     changed.inputs[input].name, changed.spec->name));
    }
  }
  return {};
}

}  // namespace kl
