#include <trainer/prepared_call.hpp>

#include <lab/services/services.hpp>

namespace kl::trainer {
namespace {

// The shapes stay in `forms`, whose buffers a move keeps.
std::vector<DLTensor> views(std::vector<TensorForm>& forms, DLDevice device) {
  std::vector<DLTensor> tensors;
  for (TensorForm& form : forms) {
    DLTensor tensor{};
    tensor.device = device;
    tensor.ndim = static_cast<int32_t>(form.shape.size());
    tensor.dtype = form.type;
    tensor.shape = form.shape.empty() ? nullptr : form.shape.data();
    tensor.strides = form.strides.empty() ? nullptr : form.strides.data();
    tensors.push_back(tensor);
  }
  return tensors;
}

std::string text_of(const kl_result& result) {
  return (result.text == nullptr ? std::string("no reason given") : std::string(result.text)) +
         " (code " + std::to_string(result.code) + ")";
}

}  // namespace

Result<PreparedCall> PreparedCall::prepare(const KernelLibrary& library, const std::string& target,
                                           int32_t operation, CallForm form, DLDevice device, int threads,
                                           std::span<const std::string> listed_services) {
  PreparedCall call;
  call.name_ = target + (operation == KL_FORWARD ? " forward" : " backward");
  call.form_ = std::move(form);
  call.inputs_ = views(call.form_.inputs, device);
  call.outputs_ = views(call.form_.outputs, device);
  const kl_problem problem{operation,
                           static_cast<int32_t>(call.inputs_.size()),
                           static_cast<int32_t>(call.outputs_.size()),
                           static_cast<int32_t>(call.form_.scalars.size()),
                           call.inputs_.data(),
                           call.outputs_.data(),
                           call.form_.scalars.data(),
                           threads,
                           0};
  const kl_kernel_table& table = library.table();
  if (const kl_result verdict = table.accepts(&problem); verdict.code != KL_OK)
    return make_error(Status::load_failed,
                      "the library does not accept the trainer's shape of " + call.name_ + ": " + text_of(verdict),
                      "widen the kernel's domain, or run the champion there");
  if (const kl_result verdict = table.prepare(&problem, &services(listed_services), &call.plan_); verdict.code != KL_OK)
    return make_error(Status::load_failed, "prepare of " + call.name_ + " failed: " + text_of(verdict),
                      "verify the kernel first");
  call.scratch_bytes_ = table.scratch_bytes(&problem);
  if (operation == KL_FORWARD) call.saved_bytes_ = table.saved_bytes(&problem);
  return call;
}

std::optional<std::string> PreparedCall::run(const KernelLibrary& library,
                                             std::initializer_list<const void*> inputs,
                                             std::initializer_list<void*> outputs, void* saved,
                                             void* scratch, kl_stream stream) {
  size_t i = 0;
  for (const void* pointer : inputs) inputs_[i++].data = const_cast<void*>(pointer);
  i = 0;
  for (void* pointer : outputs) outputs_[i++].data = pointer;
  const kl_call arguments{inputs_.data(), outputs_.data(), form_.scalars.data(), saved, scratch};
  const kl_result result = library.table().run(&plan_, &arguments, stream);
  if (result.code == KL_OK) return {};
  return name_ + " failed: " + text_of(result);
}

int64_t elements(const DLTensor& tensor) {
  int64_t count = tensor.ndim == 0 ? 0 : 1;
  for (int i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}

}  // namespace kl::trainer
