#include <lab/verify/call_site.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace kl {

namespace {

size_t bytes_of(const TensorData& tensor) {
  return static_cast<size_t>(tensor.size()) * element_bytes(tensor.dtype);
}

TensorBinding binding_of(const TensorData& tensor, BufferId buffer) {
  TensorBinding binding;
  binding.buffer = tensor.present() ? buffer : -1;
  binding.dtype = tensor.dtype;
  binding.shape = tensor.shape;
  return binding;
}

size_t first_difference(std::span<const std::byte> a, const std::byte* b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b).first - a.begin());
}

}  // namespace

OrFault<BufferId> CallSite::buffer(BufferRole role, size_t bytes) {
  if (bytes == 0) return BufferId{-1};
  return worker_->add_buffer(role, bytes);
}

CallBinding CallSite::bind(const OperationData& operation, size_t index, bool with_buffers) const {
  CallBinding call;
  call.operation = operation.spec->index;
  call.scalars = operation.scalars;
  for (const TensorData& input : operation.inputs)
    call.inputs.push_back(binding_of(input, with_buffers ? inputs_.at(input.name) : -1));
  for (size_t i = 0; i < operation.outputs.size(); ++i)
    call.outputs.push_back(
        binding_of(operation.outputs[i], with_buffers ? outputs_[index][i] : -1));
  if (with_buffers) {
    call.saved = saved_;
    call.scratch = scratch_[index];
  }
  return call;
}

OrFault<std::monostate> CallSite::allocate(const CaseData& sample) {
  for (const OperationData& operation : sample.operations) {
    for (const TensorData& input : operation.inputs) {
      if (inputs_.contains(input.name)) continue;
      KL_FAULT_TRY(inputs_[input.name], buffer(BufferRole::input, bytes_of(input)));
    }
    auto& outputs = outputs_.emplace_back();
    for (const TensorData& output : operation.outputs) {
      KL_FAULT_TRY(const BufferId id, buffer(BufferRole::output, bytes_of(output)));
      outputs.push_back(id);
    }
  }
  return std::monostate{};
}

OrFault<std::variant<CallSite, Declined>> CallSite::create(Worker& worker, ArmId arm,
                                                           const CaseData& sample) {
  using Created = std::variant<CallSite, Declined>;
  CallSite site(worker);
  std::vector<size_t> scratch_bytes;
  size_t saved_bytes = 0;
  for (size_t i = 0; i < sample.operations.size(); ++i) {
    KL_FAULT_TRY(const Domain domain,
                 worker.domain(arm, site.bind(sample.operations[i], i, false)));
    if (!domain.accepted) return Created{Declined{sample.operations[i].spec->name, domain.why_not}};
    scratch_bytes.push_back(domain.scratch_bytes);
    if (sample.operations[i].spec->index == KL_FORWARD) saved_bytes = domain.saved_bytes;
  }
  KL_FAULT_TRY([[maybe_unused]] const auto allocated, site.allocate(sample));
  KL_FAULT_TRY(site.saved_, site.buffer(BufferRole::saved, saved_bytes));
  for (const size_t bytes : scratch_bytes) {
    KL_FAULT_TRY(const BufferId id, site.buffer(BufferRole::scratch, bytes));
    site.scratch_.push_back(id);
  }
  for (size_t i = 0; i < sample.operations.size(); ++i) {
    KL_FAULT_TRY(const CallId id, worker.prepare(arm, site.bind(sample.operations[i], i, true)));
    site.calls_.push_back(id);
  }
  return Created{std::move(site)};
}

std::byte* CallSite::input(const std::string& name) const {
  const auto found = inputs_.find(name);
  return found == inputs_.end() || found->second < 0 ? nullptr : worker_->data(found->second);
}

std::byte* CallSite::output(size_t operation, size_t index) const {
  const BufferId id = outputs_[operation][index];
  return id < 0 ? nullptr : worker_->data(id);
}

void CallSite::write(const CaseData& data, int pattern) {
  for (size_t op = 0; op < data.operations.size(); ++op) {
    for (const TensorData& tensor : data.operations[op].inputs)
      if (tensor.present())
        std::memcpy(input(tensor.name), tensor.bytes.data(), tensor.bytes.size());
    for (size_t i = 0; i < data.operations[op].outputs.size(); ++i) {
      const TensorData& tensor = data.operations[op].outputs[i];
      if (!tensor.present()) continue;
      if (tensor.bytes.empty())
        poison(tensor.dtype, output(op, i), tensor.size(), pattern);
      else
        std::memcpy(output(op, i), tensor.bytes.data(), tensor.bytes.size());
    }
  }
  if (saved_ >= 0) poison_bytes(worker_->data(saved_), worker_->size(saved_), pattern);
}

OrFault<OutputBytes> CallSite::run(size_t operation, int pattern) {
  if (const BufferId scratch = scratch_[operation]; scratch >= 0)
    poison_bytes(worker_->data(scratch), worker_->size(scratch), pattern);
  KL_FAULT_TRY(const CallTiming timing, worker_->run(calls_[operation]));
  if (timing.code != KL_OK)
    return Fault{Status::execution_failed, "kernel-error",
                 fmt::format("run returned code {}: {}", timing.code, timing.text)};
  OutputBytes copied;
  for (const BufferId id : outputs_[operation]) {
    auto& bytes = copied.emplace_back();
    if (id >= 0) bytes.assign(worker_->data(id), worker_->data(id) + worker_->size(id));
  }
  return copied;
}

std::optional<Fault> CallSite::check_inputs(const CaseData& data) const {
  for (const OperationData& operation : data.operations)
    for (const TensorData& tensor : operation.inputs) {
      if (!tensor.present()) continue;
      const size_t at = first_difference(tensor.bytes, input(tensor.name));
      if (at < tensor.bytes.size())
        return Fault{Status::rejected, "writes-input",
                     fmt::format("input {} changed at byte {}", tensor.name, at)};
    }
  return std::nullopt;
}

std::optional<Fault> CallSite::check_settled(size_t operation, const OutputBytes& copied) const {
  for (size_t i = 0; i < copied.size(); ++i) {
    if (copied[i].empty()) continue;
    const size_t at = first_difference(copied[i], output(operation, i));
    if (at < copied[i].size())
      return Fault{Status::rejected, "late-write",
                   fmt::format("output {} changed at byte {} after run had returned", i, at)};
  }
  return std::nullopt;
}

}  // namespace kl
