#include <trainer/contract.hpp>

#include <lab/target/axes.hpp>

#include <algorithm>

namespace kl::trainer {
namespace {

// "x w -> y"
std::string signature(const OperationSpec& operation) {
  std::string text;
  for (const TensorSpec& input : operation.inputs) text += input.name + " ";
  text += "->";
  for (const TensorSpec& output : operation.outputs) text += " " + output.name;
  return text;
}

Result<DLDataType> type_of(const TensorSpec& tensor, const SeamShape& shape) {
  const std::string& name = tensor.dtype == "T" ? shape.dtype : tensor.dtype;
  if (name == "f32") return DLDataType{kDLFloat, 32, 1};
  if (name == "f64") return DLDataType{kDLFloat, 64, 1};
  if (name == "bf16") return DLDataType{kDLBfloat, 16, 1};
  if (name == "i32") return DLDataType{kDLInt, 32, 1};
  if (name == "i64") return DLDataType{kDLInt, 64, 1};
  return make_error(Status::unsupported_target, "the trainer has no tensors of type " + name,
                    "use f32 or bf16");
}

bool is_absent(const TensorSpec& tensor, const SeamShape& shape) {
  return tensor.optional &&
         std::any_of(shape.absent.begin(), shape.absent.end(), [&](const std::string& name) {
           return name == tensor.name || "d" + name == tensor.name;
         });
}

Result<TensorForm> form_of(const TensorSpec& tensor, const SeamShape& shape) {
  TensorForm form;
  KL_TRY(form.type, type_of(tensor, shape));
  if (is_absent(tensor, shape)) return form;
  for (const std::string& axis : tensor.axes) {
    KL_TRY(const int64_t length, axis_length(axis, shape.axes));
    form.shape.push_back(length);
  }
  if (const auto given = shape.strides.find(tensor.name); given != shape.strides.end())
    form.strides = given->second;
  return form;
}

}  // namespace

Outcome check_contract(const Target& target, const SeamContract& contract) {
  const auto wanted = contract.all();
  for (size_t i = 0; i < std::max(wanted.size(), target.operations.size()); ++i) {
    const std::string expected =
        i < wanted.size() ? std::string(wanted[i].name) + ": " + std::string(wanted[i].tensors) : "nothing";
    const std::string found = i < target.operations.size()
                                  ? target.operations[i].name + ": " + signature(target.operations[i])
                                  : "nothing";
    if (found != expected)
      return make_error(Status::unsupported_target,
                        "the trainer calls " + std::string(contract.key) + " as " + expected +
                            ", the spec says " + found,
                        "a seam's target keeps the operations and tensors of the target it stands for");
  }
  return {};
}

Result<CallForm> form_of(const OperationSpec& operation, const SeamShape& shape) {
  CallForm form;
  for (const TensorSpec& tensor : operation.inputs) {
    KL_TRY(TensorForm made, form_of(tensor, shape));
    form.inputs.push_back(std::move(made));
  }
  for (const TensorSpec& tensor : operation.outputs) {
    KL_TRY(TensorForm made, form_of(tensor, shape));
    form.outputs.push_back(std::move(made));
  }
  for (const ScalarSpec& scalar : operation.scalars) {
    const auto given = shape.scalars.find(scalar.name);
    form.scalars.push_back(given == shape.scalars.end() ? scalar.value : given->second);
  }
  return form;
}

Result<Target> target_of(const Catalogue& catalogue, const SeamContract& contract) {
  KL_TRY(Target target, catalogue.find(contract.key));
  KL_CHECK(check_contract(target, contract));
  return target;
}

}  // namespace kl::trainer
