#include <lab/target/spec_text.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl {
namespace {

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result + '"';
}

std::string toml_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> items;
  for (const auto& text : texts) items.push_back(toml_string(text));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// 1 reads back as an integer, which a double field takes; `{}` prints as many digits as it needs.
std::string number(double value) { return fmt::format("{}", value); }

std::string_view kind_name(InputKind kind) {
  switch (kind) {
    case InputKind::real: return "real";
    case InputKind::index: return "index";
    case InputKind::count: return "count";
    case InputKind::unit: return "unit";
    case InputKind::fraction: return "fraction";
  }
  return "";
}

std::string tensor_text(const TensorSpec& tensor, bool output) {
  std::string text =
      fmt::format("{{ name = {}, axes = {}", toml_string(tensor.name), toml_strings(tensor.axes));
  const auto field = [&](std::string_view key, const std::string& value) {
    text += fmt::format(", {} = {}", key, value);
  };
  if (tensor.dtype != "T") field("dtype", toml_string(tensor.dtype));
  if (output) field("mode", toml_string(to_string(tensor.mode)));
  if (tensor.kind != InputKind::real) field("kind", toml_string(kind_name(tensor.kind)));
  if (!tensor.index_bound.empty()) field("index_bound", toml_string(tensor.index_bound));
  if (tensor.ignore) field("ignore", std::to_string(*tensor.ignore));
  if (tensor.optional) field("optional", "true");
  if (tensor.strides != StrideRule::packed)
    field("strides", tensor.strides == StrideRule::rows ? "\"rows\"" : "\"any\"");
  if (!tensor.terms.empty()) field("terms", toml_string(tensor.terms));
  return text + " }";
}

std::string tensors_text(std::string_view key, const std::vector<TensorSpec>& tensors, bool output) {
  std::string text = fmt::format("{} = [\n", key);
  for (const auto& tensor : tensors) text += fmt::format("  {},\n", tensor_text(tensor, output));
  return text + "]\n";
}

std::string operation_text(const OperationSpec& operation) {
  std::string text = fmt::format("\n[[operation]]\nname = {}\n", toml_string(operation.name));
  text += tensors_text("inputs", operation.inputs, false);
  text += tensors_text("outputs", operation.outputs, true);
  if (operation.scalars.empty()) return text;
  text += "scalars = [\n";
  for (const auto& scalar : operation.scalars)
    text += fmt::format("  {{ name = {}, value = {} }},\n", toml_string(scalar.name), number(scalar.value));
  return text + "]\n";
}

// One entry stands for every dtype of the target.
std::string cases_text(std::string_view key, const std::vector<CaseShape>& shapes,
                       const std::string& dtype) {
  std::string text = fmt::format("{} = [\n", key);
  for (const auto& shape : shapes) {
    if (shape.dtype != dtype) continue;
    std::vector<std::string> lengths;
    for (const auto& [axis, length] : shape.axes)
      lengths.push_back(fmt::format("{} = {}", axis, length));
    text += fmt::format("  {{ {} }},\n", fmt::join(lengths, ", "));
  }
  return text + "]\n";
}

}  // namespace

std::string spec_text(const Target& target) {
  std::string text =
      "# What goes in, what comes out, and which cases judge it; docs/adding-a-target.md has every key.\n";
  text += fmt::format("key = {}  # the folder's name, and the word in the export lines of the .cpp files\n",
                      toml_string(target.key));
  if (!target.aliases.empty()) text += fmt::format("aliases = {}\n", toml_strings(target.aliases));
  text += fmt::format("title = {}\n", toml_string(target.title));
  if (!target.formula.empty()) text += fmt::format("formula = {}\n", toml_string(target.formula));
  if (!target.families.empty())
    text += fmt::format("families = {}  # names of its kernels in traces\n", toml_strings(target.families));
  text += fmt::format("maths = {}  # how exact a kernel must be: exact-reorder, reduced-precision, approximate\n",
                      toml_string(to_string(target.maths)));
  if (!target.seam.empty()) text += fmt::format("seam = {}\n", toml_string(target.seam));
  if (!target.services.empty()) text += fmt::format("services = {}\n", toml_strings(target.services));
  if (!target.bitwise_repeatable) text += "bitwise_repeatable = false\n";
  if (target.non_finite) text += "non_finite = true  # NaN and infinite inputs have defined results\n";
  if (target.bound_c != 1) text += fmt::format("bound_c = {}\n", number(target.bound_c));
  if (target.champion_k != 16) text += fmt::format("champion_k = {}\n", number(target.champion_k));
  text += target.row_axis.empty()
              ? fmt::format("# row_axis = {}  # when no row along it depends on another\n",
                            toml_string(target.operations.front().outputs.front().axes.front()))
              : fmt::format("row_axis = {}  # no row along it depends on another\n", toml_string(target.row_axis));
  text += fmt::format("dtypes = {}  # what a tensor without a dtype of its own may be\n",
                      toml_strings(target.dtypes));
  for (const auto& [engine, dtypes] : target.engine_dtypes)
    text += fmt::format("engine.{}.dtypes = {}\n", engine, toml_strings(dtypes));
  text += "\n# `terms` of an output: the axes it sums over (\"C\", \"N*C\"), \"1\" for none; the error bound grows with them.";
  for (const auto& operation : target.operations) text += operation_text(operation);
  text += "\n# Lengths of every axis. quick: every verify; full: --full. Odd ones find forgotten tails.\n[cases]\n";
  text += cases_text("quick", target.quick, target.dtypes.front());
  text += cases_text("full", target.full, target.dtypes.front());
  return text;
}

}  // namespace kl
