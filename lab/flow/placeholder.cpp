#include <lab/flow/placeholder.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace kl {
namespace {

bool is_constant(const std::string& axis) { return std::isdigit(static_cast<unsigned char>(axis[0])) != 0; }

bool has_axis(const TensorSpec& tensor, const std::string& axis) {
  return std::find(tensor.axes.begin(), tensor.axes.end(), axis) != tensor.axes.end();
}

// Axes of `tensor` that `other` has not: what is summed over between the two.
std::vector<std::string> axes_beyond(const TensorSpec& tensor, const TensorSpec& other) {
  std::vector<std::string> beyond;
  for (const auto& axis : tensor.axes)
    if (!has_axis(other, axis)) beyond.push_back(axis);
  return beyond;
}

// Named axes in the order of their first appearance, and the tensor of the forward call that has it.
struct Axis {
  std::string name;
  bool of_input = true;
  size_t tensor = 0, position = 0;
};

std::vector<Axis> named_axes(const OperationSpec& forward) {
  std::vector<Axis> found;
  const auto add = [&](const std::vector<TensorSpec>& tensors, bool of_input) {
    for (size_t t = 0; t < tensors.size(); ++t)
      for (size_t i = 0; i < tensors[t].axes.size(); ++i) {
        const std::string& axis = tensors[t].axes[i];
        const bool known = std::any_of(found.begin(), found.end(), [&](const Axis& a) { return a.name == axis; });
        if (!known && !is_constant(axis)) found.push_back({axis, of_input, t, i});
      }
  };
  add(forward.inputs, true);
  add(forward.outputs, false);
  return found;
}

// How the two kinds of file say the same thing.
struct Dialect {
  bool oracle = true;
  std::string number(int value) const {
    return oracle ? fmt::format("R({}.0)", value) : fmt::format("{}.0f", value);
  }
  std::string read(const std::string& tensor, const std::string& index) const {
    return oracle ? fmt::format("{}({})", tensor, index) : fmt::format("{}[{}]", tensor, index);
  }
  std::string write(const OperationSpec& operation, size_t output, const std::string& index,
                    const std::string& value) const {
    return oracle ? fmt::format("call.out({}, {}, {});", output, index, value)
                  : fmt::format("{}[{}] = {};", operation.outputs[output].name, index, value);
  }
  std::string_view type() const { return oracle ? "R" : "float"; }
};

class CodeWriter {
 public:
  CodeWriter(const Target& target, Dialect dialect)
      : forward_(target.operations[0]), backward_(target.operations[1]), dialect_(dialect) {
    for (const auto* tensors : {&forward_.inputs, &forward_.outputs, &backward_.inputs, &backward_.outputs})
      for (const auto& tensor : *tensors) taken_.insert(tensor.name);
    for (const auto& scalar : forward_.scalars) taken_.insert(scalar.name);
    for (const auto& axis : named_axes(forward_)) taken_.insert(axis.name);
    for (const char* name : {"in", "out", "i", "p"}) taken_.insert(name);
  }

  // y = Σ c·x² over what y has not of x's axes, for every output and input.
  std::string forward() {
    text_.clear();
    open_tensors(forward_);
    for (size_t o = 0; o < forward_.outputs.size(); ++o) {
      const TensorSpec& y = forward_.outputs[o];
      open_loops(y.axes, true);
      line(fmt::format("{} sum = {};", dialect_.type(), dialect_.number(0)));
      for (size_t k = 0; k < forward_.inputs.size(); ++k) {
        const TensorSpec& x = forward_.inputs[k];
        const size_t depth = depth_;
        open_loops(axes_beyond(x, y));
        const std::string value = dialect_.read(x.name, index(x));
        line(fmt::format("sum += {} * {} * {};", dialect_.number(static_cast<int>(k) + 2), value, value));
        depth_ = depth;
      }
      line(dialect_.write(forward_, o, index(y), "sum" + scale()));
      close_block(y.axes);
    }
    return text_;
  }

  // dx = 2c·x·Σ dy over what x has not of y's axes.
  std::string backward() {
    text_.clear();
    open_tensors(backward_);
    for (size_t k = 0; k < forward_.inputs.size(); ++k) {
      const TensorSpec& x = forward_.inputs[k];
      open_loops(x.axes, true);
      line(fmt::format("{} sum = {};", dialect_.type(), dialect_.number(0)));
      for (const auto& y : forward_.outputs) {
        const size_t depth = depth_;
        open_loops(axes_beyond(y, x));
        line(fmt::format("sum += {};", dialect_.read("d" + y.name, index(y))));
        depth_ = depth;
      }
      line(dialect_.write(backward_, k, index(x),
                          fmt::format("{} * {} * sum{}", dialect_.number(2 * (static_cast<int>(k) + 2)),
                                      dialect_.read(x.name, index(x)), scale())));
      close_block(x.axes);
    }
    return text_;
  }

 private:
  void line(const std::string& code) { text_ += std::string(2 * depth_, ' ') + code + "\n"; }

  std::string variable(const std::string& axis) const {
    std::string small;
    for (const char c : axis) small += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return is_constant(axis) || taken_.contains(small) ? "i_" + axis : small;
  }
  std::string index(const TensorSpec& tensor) const {
    std::string code;
    for (const auto& axis : tensor.axes) {
      if (code.empty())
        code = variable(axis);
      else
        code = fmt::format("{} * {} + {}", code.find(' ') == std::string::npos ? code : "(" + code + ")", axis,
                           variable(axis));
    }
    return code;
  }
  // A block holds several statements; other loops hold the next one.
  void open_loops(const std::vector<std::string>& axes, bool block = false) {
    for (const auto& axis : axes) {
      line(fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0}){2}", variable(axis), axis,
                       block && &axis == &axes.back() ? " {" : ""));
      ++depth_;
    }
  }
  void close_block(const std::vector<std::string>& axes) {
    --depth_;
    line("}");
    depth_ -= axes.size() - 1;
  }
  std::string scale() const {
    std::string code;
    for (const auto& scalar : forward_.scalars) code += " * " + scalar.name;
    return code;
  }

  void open_tensors(const OperationSpec& operation) {
    depth_ = 2;
    for (size_t i = 0; i < operation.scalars.size(); ++i)
      line(dialect_.oracle
               ? fmt::format("const R {}(call.scalar({}));", operation.scalars[i].name, i)
               : fmt::format("const float {} = static_cast<float>(call->scalars[{}]);", operation.scalars[i].name, i));
    for (size_t i = 0; i < operation.inputs.size(); ++i)
      line(dialect_.oracle
               ? fmt::format("const auto {} = [&](int64_t i) {{ return call.in({}, i); }};", operation.inputs[i].name, i)
               : fmt::format("const float* {} = kl::data<const float>(call->inputs[{}]);", operation.inputs[i].name, i));
    if (dialect_.oracle) return;
    for (size_t i = 0; i < operation.outputs.size(); ++i)
      line(fmt::format("float* {} = kl::data<float>(call->outputs[{}]);", operation.outputs[i].name, i));
  }

  const OperationSpec& forward_;
  const OperationSpec& backward_;
  Dialect dialect_;
  std::set<std::string> taken_;
  size_t depth_ = 0;
  std::string text_;
};

// Of the files written here, not of this one.
constexpr std::string_view kInclude = "#include";

std::string dims(const TensorSpec& tensor) {
  return fmt::format("{}[{}]", tensor.name, fmt::join(tensor.axes, ","));
}
std::string dims(const std::vector<TensorSpec>& tensors) {
  std::vector<std::string> all;
  for (const auto& tensor : tensors) all.push_back(dims(tensor));
  return fmt::format("{}", fmt::join(all, ", "));
}

// Where each axis' length is found: `in` and `out` stand for the tensors of forward in either call.
std::string lengths(const Target& target, std::string_view indent, std::string_view type) {
  std::string code;
  for (const auto& axis : named_axes(target.operations[0]))
    code += fmt::format("{}{} {} = {}[{}].shape[{}];\n", indent, type, axis.name, axis.of_input ? "in" : "out",
                        axis.tensor, axis.position);
  return code;
}

}  // namespace

void fill_cases(Target& target) {
  const auto axes = named_axes(target.operations.front());
  // Lengths of the last axis, and of the others; more axes get shorter ones.
  constexpr int64_t kLast[] = {1, 65, 3, 64, 127, 1000, 257, 4096};
  constexpr int64_t kOther[] = {1, 2, 3, 4, 5, 17, 33, 65};
  constexpr size_t kQuick = 6;
  for (size_t i = 0; i < std::size(kLast); ++i) {
    CaseShape shape;
    for (size_t a = 0; a < axes.size(); ++a)
      shape.axes[axes[a].name] = a + 1 == axes.size() ? kLast[i]
                                 : axes.size() > 2    ? std::min<int64_t>(kOther[i], 7)
                                                      : kOther[i];
    if (i < kQuick) target.quick.push_back(shape);
    target.full.push_back(shape);
  }
}

void fill_terms(Target& target) {
  // One sum runs through every tensor in turn, so the lengths of their chains add up.
  const auto fill = [](TensorSpec& output, const std::vector<TensorSpec>& summed) {
    std::vector<std::string> chains;
    for (const auto& tensor : summed)
      if (const auto axes = axes_beyond(tensor, output); !axes.empty()) chains.push_back(fmt::format("{}", fmt::join(axes, "*")));
    output.terms = chains.empty() ? "1" : fmt::format("{}", fmt::join(chains, "+"));
  };
  OperationSpec& forward = target.operations[0];
  for (auto& y : forward.outputs) fill(y, forward.inputs);
  for (auto& dx : target.operations[1].outputs) fill(dx, forward.outputs);
}

std::string placeholder_formula(const Target& target) {
  const OperationSpec& forward = target.operations[0];
  std::vector<std::string> sum;
  for (size_t k = 0; k < forward.inputs.size(); ++k)
    sum.push_back(fmt::format("{}·{}²", k + 2, forward.inputs[k].name));
  std::string scale;
  for (const auto& scalar : forward.scalars) scale += scalar.name + "·";
  return fmt::format("{} = {}Σ({})", forward.outputs.front().name, scale, fmt::join(sum, " + "));
}

std::string placeholder_oracle(const Target& target) {
  CodeWriter code(target, {true});
  const OperationSpec &forward = target.operations[0], &backward = target.operations[1];
  return fmt::format(
      R"(// EDIT: the mathematics of {key}, once, in any number type R (double, and one that tracks errors).
// What is here is a PLACEHOLDER, {formula}, and its gradient.
// kl::oracle has exp, log, sqrt, rsqrt and tanh for R; `R(2.0)` makes a constant.
{include} <kernel_lab/oracle.hpp>

namespace {{

using kl::oracle::Call;
using kl::oracle::CallTable;
using kl::oracle::Cost;

template <class R>
int evaluate(const CallTable& table, const Call<R>& call) {{
  const bool is_forward = table.operation == KL_FORWARD;
  if (!is_forward && table.operation != KL_BACKWARD) return -1;
  [[maybe_unused]] const kl::oracle::Tensor* in = is_forward ? table.inputs : table.inputs + {outputs};
  [[maybe_unused]] const kl::oracle::Tensor* out = is_forward ? table.outputs : table.inputs;
{lengths}  if (is_forward) {{  // {forward_in} → {forward_out}
{forward}  }} else {{  // {backward_in} → {backward_out}
{backward}  }}
  return 0;
}}

// What an ideal kernel must move (every input read once, every output written once) and do.
int ideal_cost(const kl_problem& problem, Cost& cost) {{
  const auto bytes = [](const DLTensor* tensors, int count) {{
    double total = 0;
    for (int t = 0; t < count; ++t) {{
      double size = tensors[t].ndim == 0 ? 0 : tensors[t].dtype.bits / 8.0;
      for (int axis = 0; axis < tensors[t].ndim; ++axis) size *= static_cast<double>(tensors[t].shape[axis]);
      total += size;
    }}
    return total;
  }};
  const double read = bytes(problem.inputs, problem.input_count);
  cost = {{read, bytes(problem.outputs, problem.output_count), read / 2}};  // EDIT: the operations
  return 0;
}}

}}  // namespace

KL_EXPORT_ORACLE("{key}", evaluate, ideal_cost);
)",
      fmt::arg("key", target.key), fmt::arg("include", kInclude), fmt::arg("formula", placeholder_formula(target)),
      fmt::arg("outputs", forward.outputs.size()), fmt::arg("lengths", lengths(target, "  ", "const int64_t")),
      fmt::arg("forward_in", dims(forward.inputs)), fmt::arg("forward_out", dims(forward.outputs)),
      fmt::arg("forward", code.forward()), fmt::arg("backward_in", dims(backward.inputs)),
      fmt::arg("backward_out", dims(backward.outputs)), fmt::arg("backward", code.backward()));
}

std::string placeholder_kernel(const Target& target) {
  CodeWriter code(target, {false});
  const OperationSpec &forward = target.operations[0], &backward = target.operations[1];
  std::vector<std::string> names, values, unpack;
  for (const auto& axis : named_axes(forward)) {
    names.push_back(axis.name);
    values.push_back(fmt::format("{}[{}].shape[{}]", axis.of_input ? "in" : "out", axis.tensor, axis.position));
    unpack.push_back(fmt::format("{0} = size.{0}", axis.name));
  }
  return fmt::format(
      R"(// What it computes is a PLACEHOLDER, {formula}, and its gradient.
{include} <kernel_lab/kernel.hpp>

namespace {{

// What `run` needs to know: filled by `prepare` from the shapes.
struct Plan {{
  int32_t operation;
  int64_t {names};
}};

kl_result accepts(const kl_problem* p) {{
  for (int i = 0; i < p->input_count; ++i)
    if (!kl::is_f32(p->inputs[i]) || !kl::is_contiguous(p->inputs[i])) return kl::unsupported("packed f32 only");
  for (int i = 0; i < p->output_count; ++i)
    if (!kl::is_f32(p->outputs[i]) || !kl::is_contiguous(p->outputs[i])) return kl::unsupported("packed f32 only");
  return kl::ok();
}}

size_t no_bytes(const kl_problem*) {{ return 0; }}  // scratch, and what backward needs of forward

kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {{
  const bool is_forward = p->operation == KL_FORWARD;
  [[maybe_unused]] const DLTensor* in = is_forward ? p->inputs : p->inputs + {outputs};
  [[maybe_unused]] const DLTensor* out = is_forward ? p->outputs : p->inputs;
  kl::store(plan, Plan{{p->operation, {values}}});
  return kl::ok();
}}

kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {{
  const Plan& size = kl::plan_as<Plan>(plan);
  const int64_t {unpack};
  if (size.operation == KL_FORWARD) {{  // {forward_in} → {forward_out}
{forward}  }} else {{  // {backward_in} → {backward_out}
{backward}  }}
  return kl::ok();
}}

}}  // namespace

KL_EXPORT_KERNEL("{key}", accepts, no_bytes, no_bytes, prepare, run);
)",
      fmt::arg("key", target.key), fmt::arg("include", kInclude), fmt::arg("formula", placeholder_formula(target)), fmt::arg("names", fmt::join(names, ", ")),
      fmt::arg("outputs", forward.outputs.size()), fmt::arg("values", fmt::join(values, ", ")),
      fmt::arg("unpack", fmt::join(unpack, ", ")), fmt::arg("forward_in", dims(forward.inputs)),
      fmt::arg("forward_out", dims(forward.outputs)), fmt::arg("forward", code.forward()),
      fmt::arg("backward_in", dims(backward.inputs)), fmt::arg("backward_out", dims(backward.outputs)),
      fmt::arg("backward", code.backward()));
}

}  // namespace kl
