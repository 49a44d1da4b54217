#include <prepared_call.hpp>

#include <utility>

namespace kl {
namespace {

DLTensor view(protocol::WireTensor& tensor, bool bound, DLDevice device) {
  DLTensor t{};
  t.data = bound ? reinterpret_cast<void*>(tensor.address) : nullptr;
  t.device = device;
  t.ndim = static_cast<int32_t>(tensor.shape.size());
  t.dtype = tensor.dtype;
  t.shape = tensor.shape.data();
  t.strides = tensor.strides.empty() ? nullptr : tensor.strides.data();
  t.byte_offset = tensor.byte_offset;
  return t;
}

std::vector<DLTensor> views(std::vector<protocol::WireTensor>& tensors, bool bound, DLDevice device) {
  std::vector<DLTensor> result;
  for (auto& t : tensors) result.push_back(view(t, bound, device));
  return result;
}

}  // namespace

PreparedCall::PreparedCall(protocol::WireCall call, int threads, DLDevice device, std::vector<int> buffers)
    : call_(std::make_unique<protocol::WireCall>(std::move(call))),
      inputs_(views(call_->inputs, true, device)),
      outputs_(views(call_->outputs, true, device)),
      blank_inputs_(views(call_->inputs, false, device)),
      blank_outputs_(views(call_->outputs, false, device)),
      threads_(threads),
      buffers_(std::move(buffers)) {}

kl_problem PreparedCall::problem() const {
  return {call_->operation,
          static_cast<int32_t>(inputs_.size()),
          static_cast<int32_t>(outputs_.size()),
          static_cast<int32_t>(call_->scalars.size()),
          blank_inputs_.data(),
          blank_outputs_.data(),
          call_->scalars.data(),
          threads_,
          0};
}

}  // namespace kl
