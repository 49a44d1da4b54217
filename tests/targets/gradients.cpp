#include "gradients.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

namespace kl::target_test {

namespace {

constexpr size_t kShapes = 3;
constexpr size_t kElements = 48;  // of one input that are moved
constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;  // of the tensor's largest gradient, or of 1

std::optional<size_t> find(const std::vector<TensorSpec>& tensors, const std::string& name) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) return i;
  return std::nullopt;
}

// X of "dX".
std::string without_d(const std::string& name) {
  return name.starts_with('d') ? name.substr(1) : "";
}

bool has_one_element(const TensorSpec& tensor) {
  return std::all_of(tensor.axes.begin(), tensor.axes.end(),
                     [](const auto& axis) { return axis == "1"; });
}

// Forward's output whose gradient this input of backward is.
std::optional<size_t> incoming_for(const OperationSpec& forward, const std::string& name) {
  if (find(forward.inputs, name)) return std::nullopt;
  if (const auto output = find(forward.outputs, without_d(name))) return output;
  if (name != "g") return std::nullopt;
  for (size_t o = 0; o < forward.outputs.size(); ++o)
    if (has_one_element(forward.outputs[o])) return o;
  return std::nullopt;
}

std::vector<std::string> gradient_names(const std::vector<TensorSpec>& tensors) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : tensors) names.push_back("d" + tensor.name);
  return names;
}

int64_t volume(const CaseShape& shape) {
  int64_t product = 1;
  for (const auto& [axis, length] : shape.axes) product *= length;
  return product;
}

// The smallest shapes on which every axis says something.
std::vector<CaseShape> small_shapes(const Target& target) {
  std::vector<CaseShape> shapes;
  for (const auto* list : {&target.quick, &target.full})
    for (const CaseShape& shape : *list) {
      const bool telling = std::all_of(shape.axes.begin(), shape.axes.end(),
                                       [](const auto& axis) { return axis.second > 1; });
      const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const CaseShape& other) {
        return other.axes == shape.axes;
      });
      if (telling && !known) shapes.push_back(shape);
    }
  std::stable_sort(shapes.begin(), shapes.end(),
                   [](const CaseShape& a, const CaseShape& b) { return volume(a) < volume(b); });
  if (shapes.size() > kShapes) shapes.resize(kShapes);
  return shapes;
}

// Forward and backward on the same draw.
class Pair {
 public:
  Pair(const Target& target, const OracleLibrary& oracle, const Axes& axes,
       const std::vector<std::string>& absent)
      : oracle_(oracle),
        forward_(make_call(target.operations[KL_FORWARD], axes, 11, 1, absent)),
        backward_(make_call(target.operations[KL_BACKWARD], axes, 12, 1, absent)) {
    const auto outputs = evaluate(oracle_, forward_, false);
    for (size_t i = 0; i < backward_.inputs.size(); ++i) {
      const std::string& name = backward_.spec->inputs[i].name;
      if (const auto input = find(forward_.spec->inputs, name))
        backward_.inputs[i] = forward_.inputs[*input];
      else if (const auto output = find(forward_.spec->outputs, name))
        backward_.inputs[i].values = outputs[*output].values;
      else
        incoming_.push_back({i, *incoming_for(*forward_.spec, name)});
    }
  }

  std::vector<std::string> faults() {
    const auto gradients = evaluate(oracle_, backward_, false);
    std::vector<std::string> faults;
    for (const auto [input, output] : incoming_)
      if (backward_.inputs[input].shape != forward_.outputs[output].shape)
        return {backward_.spec->inputs[input].name +
                " has another shape than the output it is the gradient for"};
    for (size_t o = 0; o < gradients.size(); ++o) {
      const TensorSpec& spec = backward_.spec->outputs[o];
      std::vector<double> gradient = gradients[o].values;
      if (spec.mode != OutputMode::write)
        for (size_t i = 0; i < gradient.size(); ++i) gradient[i] -= backward_.outputs[o].values[i];
      const size_t input = *find(forward_.spec->inputs, without_d(spec.name));
      if (const auto fault = first_fault(gradient, forward_.inputs[input].values))
        faults.push_back(spec.name + *fault);
    }
    return faults;
  }

 private:
  struct Incoming {
    size_t input, output;  // of backward, of forward
  };

  double objective() const {
    const auto outputs = evaluate(oracle_, forward_, false);
    double sum = 0;
    for (const auto [input, output] : incoming_)
      for (size_t i = 0; i < outputs[output].values.size(); ++i)
        sum += outputs[output].values[i] * backward_.inputs[input].values[i];
    return sum;
  }

  double difference(double& value) const {
    const double at = value;
    value = at + kStep;
    const double above = objective();
    value = at - kStep;
    const double below = objective();
    value = at;
    return (above - below) / (2 * kStep);
  }

  std::optional<std::string> first_fault(const std::vector<double>& gradient,
                                         std::vector<double>& values) {
    if (gradient.size() != values.size())
      return fmt::format(" has {} elements, its input {}", gradient.size(), values.size());
    std::vector<size_t> order(values.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937_64(13));
    order.resize(std::min(order.size(), kElements));
    double largest = 1;
    for (const double g : gradient) largest = std::max(largest, std::fabs(g));
    for (const size_t i : order) {
      const double expected = difference(values[i]);
      if (!(std::fabs(gradient[i] - expected) <= kTolerance * largest))
        return fmt::format("[{}] is {:.9g}, the difference quotient of forward {:.9g}", i,
                           gradient[i], expected);
    }
    return std::nullopt;
  }

  const OracleLibrary& oracle_;
  CallData forward_, backward_;
  std::vector<Incoming> incoming_;
};

}  // namespace

std::vector<std::string> naming_faults(const Target& target) {
  const OperationSpec& forward = target.operations[KL_FORWARD];
  const OperationSpec& backward = target.operations[KL_BACKWARD];
  std::vector<std::string> faults;
  bool has_incoming = false;
  for (const TensorSpec& input : backward.inputs) {
    const bool incoming = incoming_for(forward, input.name).has_value();
    has_incoming |= incoming;
    if (!incoming && !find(forward.inputs, input.name) && !find(forward.outputs, input.name))
      faults.push_back(
          fmt::format("backward's input '{}' belongs to nothing of forward: call an incoming "
                      "gradient {} (or g, of a "
                      "loss), and anything else as in forward",
                      input.name, fmt::join(gradient_names(forward.outputs), ", ")));
  }
  if (!has_incoming)
    faults.push_back(fmt::format("backward has no incoming gradient: one of {} must be an input",
                                 fmt::join(gradient_names(forward.outputs), ", ")));
  for (const TensorSpec& output : backward.outputs) {
    const auto input = find(forward.inputs, without_d(output.name));
    if (!input)
      faults.push_back(
          fmt::format("backward's output '{}' is no gradient of an input of forward: call it "
                      "one of {}",
                      output.name, fmt::join(gradient_names(forward.inputs), ", ")));
    else if (forward.inputs[*input].kind == InputKind::index ||
             forward.inputs[*input].kind == InputKind::count)
      faults.push_back(fmt::format("'{}' would be the gradient of integers", output.name));
  }
  return faults;
}

std::vector<std::string> gradient_faults(const Target& target, const OracleLibrary& oracle) {
  std::vector<std::string> faults = naming_faults(target);
  if (!faults.empty()) return faults;
  const auto shapes = small_shapes(target);
  if (shapes.empty())
    return {"no case has every axis longer than 1: list a small one in cases.quick"};
  for (const CaseShape& shape : shapes)
    for (const auto& absent : presences(target.operations[KL_FORWARD]))
      for (const std::string& fault : Pair(target, oracle, shape.axes, absent).faults()) {
        std::string where;
        for (const auto& [axis, length] : shape.axes) where += fmt::format(" {}={}", axis, length);
        for (const std::string& name : absent) where += " -" + name;
        faults.push_back(fault + " at" + where);
      }
  return faults;
}

}  // namespace kl::target_test
