#include <prepared_call.hpp>

#include <cstring>
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

std::vector<DLTensor> PreparedCall::described() const {
  std::vector<DLTensor> all;
  for (const auto* views : {&inputs_, &outputs_, &blank_inputs_, &blank_outputs_})
    all.insert(all.end(), views->begin(), views->end());
  return all;
}

void PreparedCall::keep() {
  kept_ = std::make_unique<Kept>(Kept{*plan_, described(), lengths(), call_->scalars});
}

bool PreparedCall::is_as_kept() const {
  const auto same = [](const auto& now, const auto& before) {
    return before.empty() || std::memcmp(now.data(), before.data(), before.size() * sizeof before[0]) == 0;
  };
  return std::memcmp(plan_.get(), &kept_->plan, sizeof kept_->plan) == 0 && same(described(), kept_->views) &&
         same(lengths(), kept_->lengths) && same(call_->scalars, kept_->scalars);
}

std::vector<int64_t> PreparedCall::lengths() const {
  std::vector<int64_t> all;
  for (const auto* tensors : {&call_->inputs, &call_->outputs})
    for (const protocol::WireTensor& tensor : *tensors)
      for (const auto* lengths : {&tensor.shape, &tensor.strides})
        all.insert(all.end(), lengths->begin(), lengths->end());
  return all;
}

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
