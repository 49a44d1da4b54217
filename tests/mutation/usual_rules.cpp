#include "usual_rules.hpp"

#include <cmath>
#include <cstdlib>
#include <memory>

namespace kl {

namespace {

struct Tensors {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DLTensor> views;
};

Tensors tensors_of(const std::vector<TensorData>& list) {
  Tensors tensors;
  for (const TensorData& tensor : list) {
    auto& bytes = tensors.bytes.emplace_back(tensor.bytes);
    bytes.resize(static_cast<size_t>(tensor.size()) * element_bytes(tensor.dtype));
    tensors.shapes.push_back(tensor.shape);
  }
  for (size_t i = 0; i < list.size(); ++i) {
    DLTensor view{};
    view.data = list[i].present() ? tensors.bytes[i].data() : nullptr;
    view.device = {kDLCPU, 0};
    view.ndim = static_cast<int>(list[i].shape.size());
    view.dtype = list[i].dtype;
    view.shape = tensors.shapes[i].data();
    tensors.views.push_back(view);
  }
  return tensors;
}

bool agree(double got, double y, double limit) {
  return (std::isnan(got) && std::isnan(y)) || got == y || std::fabs(got - y) <= limit;
}

void judge(const OracleOutput& expected, const std::vector<double>& got, UsualRules& rules) {
  size_t within = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double y = expected.values[i], size = std::fabs(y);
    rules.allclose = rules.allclose && agree(got[i], y, 1e-2 + 1e-2 * size);
    rules.abs_or_rel =
        rules.abs_or_rel && (agree(got[i], y, 1e-2) || agree(got[i], y, 1e-2 * size));
    within += agree(got[i], y, std::fmax(1e-8, 1e-2 * size));
  }
  rules.most_within_1pct = rules.most_within_1pct &&
                           static_cast<double>(within) >= 0.99 * static_cast<double>(got.size());
}

bool run_case(const kl_kernel_table& kernel, const kl_services& lent, const CaseData& data,
              UsualRules& rules) {
  std::vector<std::byte> saved;
  for (size_t op = 0; op < data.operations.size(); ++op) {
    const OperationData& operation = data.operations[op];
    Tensors inputs = tensors_of(operation.inputs), outputs = tensors_of(operation.outputs);
    kl_problem problem{};
    problem.operation = operation.spec->index;
    problem.input_count = static_cast<int32_t>(inputs.views.size());
    problem.output_count = static_cast<int32_t>(outputs.views.size());
    problem.scalar_count = static_cast<int32_t>(operation.scalars.size());
    problem.inputs = inputs.views.data();
    problem.outputs = outputs.views.data();
    problem.scalars = operation.scalars.data();
    problem.threads = 1;
    if (op == 0) saved.resize(kernel.saved_bytes(&problem));
    std::vector<std::byte> scratch(kernel.scratch_bytes(&problem));
    kl_plan plan{};
    if (kernel.prepare(&problem, &lent, &plan).code != KL_OK) return false;
    const kl_call call{inputs.views.data(), outputs.views.data(), operation.scalars.data(),
                       saved.data(), scratch.data()};
    if (kernel.run(&plan, &call, nullptr).code != KL_OK) return false;
    for (size_t i = 0; i < outputs.views.size(); ++i) {
      if (!operation.outputs[i].present()) continue;
      std::vector<double> got(data.expected[op][i].values.size());
      to_doubles(operation.outputs[i].dtype, outputs.bytes[i].data(), got);
      judge(data.expected[op][i], got, rules);
    }
  }
  return true;
}

}  // namespace

UsualRules judge_by_usual_rules(const kl_kernel_table& kernel, const kl_services& lent,
                                const std::vector<CaseData>& cases) {
  UsualRules rules;
  for (const CaseData& data : cases)
    if (!run_case(kernel, lent, data, rules)) return {false, false, false};
  return rules;
}

}  // namespace kl
