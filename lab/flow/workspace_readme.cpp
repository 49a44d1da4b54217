#include <lab/flow/workspace_readme.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl {
namespace {

std::string_view layout_text(StrideRule rule) {
  switch (rule) {
    case StrideRule::rows: return ", or with gaps between rows";
    case StrideRule::any: return ", or any strides";
    default: return "";
  }
}

std::string tensor_row(const TensorSpec& tensor, bool output) {
  return fmt::format("| {} | `{}` | [{}]{} | {} | {} |\n", output ? "output" : "input", tensor.name,
                     fmt::join(tensor.axes, ", "), layout_text(tensor.strides), tensor.dtype,
                     output            ? to_string(tensor.mode)
                     : tensor.optional ? std::string_view("optional")
                                       : std::string_view(""));
}

std::string operation_section(const OperationSpec& operation) {
  std::string text =
      fmt::format("### {} (operation {})\n\n| | name | shape | dtype | |\n|---|---|---|---|---|\n",
                  operation.name, operation.index);
  for (const auto& tensor : operation.inputs) text += tensor_row(tensor, false);
  for (const auto& tensor : operation.outputs) text += tensor_row(tensor, true);
  for (const auto& scalar : operation.scalars)
    text += fmt::format("\nScalar `{}`, {} unless the preset says otherwise.\n", scalar.name,
                        scalar.value);
  return text + "\n";
}

}  // namespace

std::string workspace_readme(const Target& target, const WorkspaceRecord& record) {
  const std::vector<std::string> dtypes = target.for_engine(record.engine).dtypes;
  std::string text = fmt::format("# {}\n\n{}\n\n", target.key, target.title);
  if (!target.formula.empty()) text += fmt::format("```\n{}\n```\n\n", target.formula);
  text += fmt::format(
      "Change `{}` and nothing else; everything that judges it lies outside this folder.\n\n",
      record.kernel_file);
  for (const auto& operation : target.operations) text += operation_section(operation);
  text += fmt::format(
      "- Shapes are row-major; a dtype `T` is the dtype of the case ({}).\n"
      "- Tensors are packed, or as the table says; `accepts` may decline what is not packed.\n"
      "- `write` outputs are wholly written, `accumulate` outputs are added to, `inout` outputs "
      "are updated.\n"
      "- Maths class `{}`; an element passes when it is within the error bound of the "
      "double-precision oracle.\n"
      "- Forward may leave what backward needs in the `saved` blob; `scratch` is lost between "
      "calls.\n"
      "- Permitted services: {}.\n\n",
      fmt::join(dtypes, ", "), to_string(target.maths),
      target.services.empty() ? std::string("none")
                              : fmt::format("{}", fmt::join(target.services, ", ")));
  text += fmt::format(
      "## From here\n\nWith DIR this folder:\n\n```\nkernel-lab --engine {0} verify --workspace "
      "DIR --quick\n"
      "kernel-lab --engine {0} bench --workspace DIR --quick\n"
      "kernel-lab --engine {0} promotion-check --target {1} --workspace DIR\n```\n",
      record.engine, target.key);
  return text;
}

}  // namespace kl
