#include <lab/verify/call_site.hpp>

#include <lab/verify/parallel_rows.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace kl {

namespace {

constexpr int64_t kLeastBytes = 1 << 20;  // for a thread of its own

TensorBinding binding_of(const Layout& layout, BufferId buffer) {
  TensorBinding binding;
  binding.buffer = buffer;
  binding.dtype = layout.dtype;
  binding.shape = layout.shape;
  binding.strides = layout.strides;
  return binding;
}

size_t first_difference(std::span<const std::byte> a, const std::byte* b) {
  if (std::memcmp(a.data(), b, a.size()) == 0) return a.size();
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b).first - a.begin());
}

// visit(row of the buffer, row of the tile, bytes of a row)
template <class Visit>
void each_row(const RowExpansion& rows, const TensorData& tile, Visit visit) {
  const size_t bytes = tile.bytes.size() / static_cast<size_t>(rows.tile_rows);
  parallel_rows(rows.rows, kLeastBytes / static_cast<int64_t>(bytes) + 1,
                [&](int, int64_t first, int64_t end) {
                  for (int64_t row = first; row < end; ++row)
                    visit(static_cast<size_t>(row) * bytes,
                          rows.source[static_cast<size_t>(row)] * bytes, bytes);
                });
}

}  // namespace

OrFault<BufferId> CallSite::buffer(BufferRole role, size_t bytes) {
  if (bytes == 0) return BufferId{-1};
  return worker_->add_buffer(role, bytes);
}

CallSite::Held CallSite::held(const TensorSpec& spec, const TensorData& tensor) const {
  Held held{-1, Layout::of(tensor), nullptr};
  if (!expansion_ || !tensor.present() || !has_rows(spec, expansion_->axis)) return held;
  held.rows = expansion_.get();
  held.layout.shape[0] = expansion_->rows;
  return held;
}

CallBinding CallSite::bind(const OperationData& operation, size_t index, bool with_buffers) const {
  CallBinding call;
  call.operation = operation.spec->index;
  call.scalars = operation.scalars;
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    const TensorData& input = operation.inputs[i];
    call.inputs.push_back(binding_of(held(operation.spec->inputs[i], input).layout,
                                     with_buffers ? inputs_.at(input.name).buffer : -1));
  }
  for (size_t i = 0; i < operation.outputs.size(); ++i)
    call.outputs.push_back(
        binding_of(held(operation.spec->outputs[i], operation.outputs[i]).layout,
                   with_buffers ? outputs_[index][i].buffer : -1));
  if (with_buffers) {
    call.saved = saved_;
    call.scratch = scratch_[index];
  }
  return call;
}

OrFault<std::monostate> CallSite::allocate(const CaseData& sample) {
  for (const OperationData& operation : sample.operations) {
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      const std::string& name = operation.inputs[i].name;
      if (inputs_.contains(name)) continue;
      Held input = held(operation.spec->inputs[i], operation.inputs[i]);
      KL_FAULT_TRY(input.buffer, buffer(BufferRole::input, input.layout.bytes()));
      inputs_[name] = std::move(input);
    }
    auto& outputs = outputs_.emplace_back();
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      Held output = held(operation.spec->outputs[i], operation.outputs[i]);
      KL_FAULT_TRY(output.buffer, buffer(BufferRole::output, output.layout.bytes()));
      outputs.push_back(std::move(output));
    }
  }
  return std::monostate{};
}

OrFault<std::variant<CallSite, Declined>> CallSite::create(Worker& worker, ArmId arm,
                                                           const CaseData& sample) {
  using Created = std::variant<CallSite, Declined>;
  CallSite site(worker, sample.expansion);
  std::vector<size_t> scratch_bytes;
  size_t saved_bytes = 0;
  for (size_t i = 0; i < sample.operations.size(); ++i) {
    KL_FAULT_TRY(const Domain domain,
                 worker.domain(arm, site.bind(sample.operations[i], i, false)));
    if (!domain.accepted)
      return OrFault<Created>(std::in_place_index<0>, std::in_place_index<1>,
                              Declined{sample.operations[i].spec->name, domain.why_not});
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
  return OrFault<Created>(std::in_place_index<0>, std::in_place_index<0>, std::move(site));
}

void CallSite::put(const Held& held, const TensorData& tensor, int pattern) {
  std::byte* to = worker_->data(held.buffer);
  if (held.rows == nullptr) return scatter(held.layout, tensor.bytes, pattern, to);
  each_row(*held.rows, tensor, [&](size_t at, size_t from, size_t bytes) {
    std::memcpy(to + at, tensor.bytes.data() + from, bytes);
  });
}

bool CallSite::holds(const Held& held, const TensorData& tensor) const {
  const std::byte* data = worker_->data(held.buffer);
  if (held.rows == nullptr)
    return gather(held.layout, data) == tensor.bytes &&
           !written_gap(held.layout, data, pattern_).has_value();
  std::atomic<bool> same = true;
  each_row(*held.rows, tensor, [&](size_t at, size_t from, size_t bytes) {
    if (std::memcmp(data + at, tensor.bytes.data() + from, bytes) != 0) same = false;
  });
  return same;
}

OrFault<std::monostate> CallSite::write(const CaseData& data, int pattern) {
  pattern_ = pattern;
  expansion_ = data.expansion;  // same rows, in the order of this case
  for (auto& [name, input] : inputs_)
    if (input.rows != nullptr) input.rows = expansion_.get();
  for (size_t op = 0; op < data.operations.size(); ++op) {
    for (const TensorData& tensor : data.operations[op].inputs)
      if (tensor.present()) put(inputs_.at(tensor.name), tensor, pattern);
    for (size_t i = 0; i < data.operations[op].outputs.size(); ++i) {
      const TensorData& tensor = data.operations[op].outputs[i];
      Held& output = outputs_[op][i];
      if (!tensor.present()) continue;
      if (output.rows != nullptr) output.rows = expansion_.get();
      if (!tensor.bytes.empty()) {
        put(output, tensor, pattern);
        continue;
      }
      KL_FAULT_TRY([[maybe_unused]] const auto filled,
                   worker_->fill(output.buffer, poison_unit(tensor.dtype, pattern)));
    }
  }
  if (saved_ < 0) return std::monostate{};
  return worker_->fill(saved_, untyped_poison_unit(pattern));
}

// Outputs as they are now, packed. A Fault "writes-gap" when what lies between rows changed.
OrFault<OutputBytes> CallSite::collect(size_t operation) const {
  OutputBytes collected;
  for (size_t i = 0; i < outputs_[operation].size(); ++i) {
    const Held& output = outputs_[operation][i];
    auto& bytes = collected.emplace_back();
    if (output.buffer < 0) continue;
    const std::byte* data = worker_->data(output.buffer);
    if (const auto gap = written_gap(output.layout, data, pattern_))
      return Fault{Status::rejected, "writes-gap",
                   fmt::format("output {} changed at element {} of its buffer, between its rows", i,
                               *gap)};
    bytes = gather(output.layout, data);
  }
  return collected;
}

OrFault<OutputBytes> CallSite::run(size_t operation, int pattern) {
  if (const BufferId scratch = scratch_[operation]; scratch >= 0) {
    KL_FAULT_TRY([[maybe_unused]] const auto filled,
                 worker_->fill(scratch, untyped_poison_unit(pattern)));
  }
  KL_FAULT_TRY(const CallTiming timing, worker_->run(calls_[operation]));
  if (timing.code != KL_OK)
    return Fault{Status::execution_failed, "kernel-error",
                 fmt::format("run returned code {}: {}", timing.code, timing.text)};
  if (timing.graph_nodes >= 0) graph_nodes_[operation] = timing.graph_nodes;
  replays_.erase(operation);
  if (timing.replay_differs_bytes > 0) {
    for (const Held& output : outputs_[operation])
      if (output.buffer >= 0) {
        KL_FAULT_TRY([[maybe_unused]] const auto got, worker_->fetch_replay(output.buffer));
      }
    KL_FAULT_TRY(replays_[operation], collect(operation));
  }
  KL_FAULT_TRY([[maybe_unused]] const auto fetched, fetch(outputs_[operation]));
  return collect(operation);
}

OrFault<std::monostate> CallSite::fetch(const std::vector<Held>& tensors) const {
  for (const Held& tensor : tensors)
    if (tensor.buffer >= 0) {
      KL_FAULT_TRY([[maybe_unused]] const auto fetched,
                   worker_->fetch(tensor.buffer, 0, worker_->size(tensor.buffer)));
    }
  return std::monostate{};
}

std::optional<Fault> CallSite::check_inputs(const CaseData& data) const {
  for (const OperationData& operation : data.operations)
    for (const TensorData& tensor : operation.inputs) {
      if (!tensor.present()) continue;
      const Held& input = inputs_.at(tensor.name);
      auto fetched = fetch({input});
      if (const auto* fault = std::get_if<Fault>(&fetched)) return *fault;
      if (!holds(input, tensor))
        return Fault{Status::rejected, "writes-input",
                     fmt::format("input {} is not what it was before the call", tensor.name)};
    }
  return std::nullopt;
}

std::optional<Fault> CallSite::check_settled(size_t operation, const OutputBytes& copied) const {
  auto fetched = fetch(outputs_[operation]);
  if (const auto* fault = std::get_if<Fault>(&fetched)) return *fault;
  for (size_t i = 0; i < copied.size(); ++i) {
    const Held& output = outputs_[operation][i];
    if (copied[i].empty()) continue;
    const std::byte* data = worker_->data(output.buffer);
    const size_t at = output.layout.packed()
                          ? first_difference(copied[i], data)
                          : first_difference(copied[i], gather(output.layout, data).data());
    if (at < copied[i].size())
      return Fault{Status::rejected, "late-write",
                   fmt::format("output {} changed at byte {} after run had returned", i, at)};
  }
  return std::nullopt;
}

}  // namespace kl
