#include <lab/bench/arm.hpp>

#include <lab/verify/call_site.hpp>
#include <lab/verify/strided.hpp>

#include <algorithm>
#include <cstring>

namespace kl {
namespace {

size_t bytes_of(const TensorData& tensor) { return Layout::of(tensor).bytes(); }

TensorBinding view_of(const TensorData& tensor) {
  TensorBinding binding;
  binding.dtype = tensor.dtype;
  binding.shape = tensor.shape;
  binding.strides = tensor.strides;
  return binding;
}

CallBinding shapes_of(const OperationData& operation) {
  CallBinding call;
  call.operation = operation.spec->index;
  call.scalars = operation.scalars;
  for (const TensorData& tensor : operation.inputs) call.inputs.push_back(view_of(tensor));
  for (const TensorData& tensor : operation.outputs) call.outputs.push_back(view_of(tensor));
  return call;
}

std::string axes_text(const SeamShape& shape) {
  std::string text;
  for (const auto& [axis, length] : shape.axes)
    text += (text.empty() ? "" : " ") + axis + "=" + std::to_string(length);
  return text;
}

}  // namespace

std::vector<CallSlot> call_slots(const Target& target, size_t cases) {
  std::vector<CallSlot> slots;
  for (size_t c = 0; c < cases; ++c)
    for (size_t o = 0; o < target.operations.size(); ++o) slots.push_back({c, o});
  return slots;
}

OrFault<Arm> Arm::create(Worker& worker, const Target& target, const std::vector<SeamCase>& cases,
                         ArmId library, std::optional<ArmId> fallback) {
  Arm arm(worker, target, cases);
  arm.bound_.resize(cases.size());
  for (size_t c = 0; c < cases.size(); ++c)
    if (auto fault = arm.bind(c, library, fallback)) return *fault;
  return arm;
}

std::optional<Fault> Arm::bind(size_t index, ArmId library, std::optional<ArmId> fallback) {
  const size_t refused_before = refusals_.size();
  auto fault = bind_library(index, library);
  if (!fault || refusals_.size() == refused_before || !fallback) return fault;
  return bind_library(index, *fallback);
}

// Refused when either direction is: forward and backward always come from one library.
std::optional<Fault> Arm::bind_library(size_t index, ArmId library) {
  const SeamCase& seam_case = (*cases_)[index];
  std::vector<Domain> domains;
  for (const OperationData& operation : seam_case.pool.operations) {
    KL_FAULT_TRY(const Domain domain, worker_->domain(library, shapes_of(operation)));
    if (!domain.accepted) {
      refusals_.push_back(axes_text(seam_case.shape) + ": " + domain.why_not);
      return Fault{Status::unsupported_target, "outside-domain", refusals_.back()};
    }
    domains.push_back(domain);
  }

  PerCase& bound = bound_[index];
  bound = {};
  if (domains[0].saved_bytes > 0) {
    KL_FAULT_TRY(bound.saved, worker_->add_buffer(BufferRole::saved, domains[0].saved_bytes));
  }
  std::map<std::string, BufferId> outputs_by_name, inputs_by_name;
  for (size_t o = 0; o < seam_case.pool.operations.size(); ++o) {
    const OperationData& operation = seam_case.pool.operations[o];
    CallBinding call = shapes_of(operation);
    Bound& b = bound.operations.emplace_back();
    for (size_t i = 0; i < operation.inputs.size(); ++i) {
      const TensorData& tensor = operation.inputs[i];
      BufferId buffer = -1;
      bool fresh = false;
      if (const auto made = outputs_by_name.find(tensor.name); made != outputs_by_name.end()) {
        buffer = made->second;
      } else if (const auto known = inputs_by_name.find(tensor.name);
                 known != inputs_by_name.end()) {
        buffer = known->second;
      } else if (tensor.present()) {
        KL_FAULT_TRY(buffer, buffer_with_pool(BufferRole::input, tensor));
        inputs_by_name[tensor.name] = buffer;
        fresh = true;
      }
      b.inputs.push_back(buffer);
      b.fresh.push_back(fresh);
      call.inputs[i].buffer = buffer;
    }
    for (size_t i = 0; i < operation.outputs.size(); ++i) {
      const TensorData& tensor = operation.outputs[i];
      BufferId buffer = -1;
      if (tensor.present()) {
        KL_FAULT_TRY(buffer, buffer_with_pool(BufferRole::output, tensor));
        outputs_by_name[tensor.name] = buffer;
      }
      b.outputs.push_back(buffer);
      call.outputs[i].buffer = buffer;
    }
    b.base_draws.resize(operation.outputs.size());
    if (domains[o].scratch_bytes > 0) {
      KL_FAULT_TRY(b.scratch, worker_->add_buffer(BufferRole::scratch, domains[o].scratch_bytes));
    }
    call.saved = bound.saved;
    call.scratch = b.scratch;
    KL_FAULT_TRY(b.call, worker_->prepare(library, call));
  }
  return std::nullopt;
}

// Contents that are drawn come from a pool of the buffer's own; `write` outputs have none.
OrFault<BufferId> Arm::buffer_with_pool(BufferRole role, const TensorData& pool) {
  KL_FAULT_TRY(const BufferId buffer, worker_->add_buffer(role, bytes_of(pool)));
  if (pool.bytes.empty()) return buffer;
  std::memcpy(worker_->data(buffer), pool.bytes.data(), pool.bytes.size());
  KL_FAULT_TRY([[maybe_unused]] const auto kept, worker_->keep_pool(buffer, pool.dtype));
  return buffer;
}

OrFault<std::monostate> Arm::draw(BufferId buffer, const Draw& draw) {
  return worker_->draw(buffer, draw.rotation, draw.factor);
}

OrFault<std::monostate> Arm::renew(const CallSlot& slot, std::mt19937_64& random) {
  PerCase& bound = bound_[slot.seam_case];
  Bound& b = bound.operations[slot.operation];
  const OperationData& pool = (*cases_)[slot.seam_case].pool.operations[slot.operation];
  if (slot.operation == 0) {
    bound.pattern = (bound.pattern + 1) % kPoisonPatterns;
    if (bound.saved >= 0) {
      KL_FAULT_TRY([[maybe_unused]] const auto filled,
                   worker_->fill(bound.saved, untyped_poison_unit(bound.pattern)));
    }
  }
  for (size_t i = 0; i < b.inputs.size(); ++i)
    if (b.fresh[i]) {
      KL_FAULT_TRY([[maybe_unused]] const auto drawn,
                   draw(b.inputs[i],
                        random_draw(pool.inputs[i], pool.spec->inputs[i].kind, random)));
    }
  for (size_t i = 0; i < b.outputs.size(); ++i) {
    if (b.outputs[i] < 0) continue;
    const TensorData& tensor = pool.outputs[i];
    if (pool.spec->outputs[i].mode == OutputMode::write) {
      KL_FAULT_TRY([[maybe_unused]] const auto filled,
                   worker_->fill(b.outputs[i], poison_unit(tensor.dtype, bound.pattern)));
    } else {
      b.base_draws[i] = random_draw(tensor, pool.spec->outputs[i].kind, random);
      KL_FAULT_TRY([[maybe_unused]] const auto drawn, draw(b.outputs[i], *b.base_draws[i]));
    }
  }
  return std::monostate{};
}

OrFault<std::monostate> Arm::fetch_tensor(const TensorSpec& spec, const TensorData& tensor,
                                          BufferId buffer, const std::vector<int64_t>* rows) {
  if (buffer < 0) return std::monostate{};
  if (rows == nullptr || !has_rows(spec, target_->row_axis))
    return worker_->fetch(buffer, 0, bytes_of(tensor));
  const Layout layout = Layout::of(tensor);
  for (const int64_t r : *rows) {
    KL_FAULT_TRY([[maybe_unused]] const auto fetched,
                 worker_->fetch(buffer, layout.row_offset(r), layout.row().bytes()));
  }
  return std::monostate{};
}

OrFault<std::monostate> Arm::fetch(const CallSlot& slot, const std::vector<int64_t>* rows) {
  const Bound& b = bound_[slot.seam_case].operations[slot.operation];
  const OperationData& pool = (*cases_)[slot.seam_case].pool.operations[slot.operation];
  for (size_t i = 0; i < b.inputs.size(); ++i) {
    KL_FAULT_TRY([[maybe_unused]] const auto fetched,
                 fetch_tensor(pool.spec->inputs[i], pool.inputs[i], b.inputs[i], rows));
  }
  for (size_t i = 0; i < b.outputs.size(); ++i) {
    KL_FAULT_TRY([[maybe_unused]] const auto fetched,
                 fetch_tensor(pool.spec->outputs[i], pool.outputs[i], b.outputs[i], rows));
  }
  return std::monostate{};
}

OrFault<CallTiming> Arm::run(const CallSlot& slot, bool cold) {
  const CallId call = bound_[slot.seam_case].operations[slot.operation].call;
  return succeeded(slot, worker_->run_timed(call, cold));
}

OrFault<CallTiming> Arm::run_checked(const CallSlot& slot) {
  return succeeded(slot, worker_->run(bound_[slot.seam_case].operations[slot.operation].call));
}

OrFault<CallTiming> Arm::succeeded(const CallSlot& slot, OrFault<CallTiming> ran) const {
  KL_FAULT_TRY(CallTiming timing, std::move(ran));
  if (timing.code == KL_OK) return timing;
  return Fault{Status::execution_failed, "error-code",
               target_->operations[slot.operation].name + " at " +
                   axes_text((*cases_)[slot.seam_case].shape) + " returned code " +
                   std::to_string(timing.code) + (timing.text.empty() ? "" : ": " + timing.text)};
}

FinishedCall Arm::finished(const CallSlot& slot) const {
  const Bound& b = bound_[slot.seam_case].operations[slot.operation];
  FinishedCall call;
  call.operation = &target_->operations[slot.operation];
  const auto address = [&](BufferId id) { return id < 0 ? nullptr : worker_->data(id); };
  for (const BufferId id : b.inputs) call.inputs.push_back(address(id));
  for (const BufferId id : b.outputs) call.outputs.push_back(address(id));
  call.base_draws = b.base_draws;
  call.poison_pattern = bound_[slot.seam_case].pattern;
  return call;
}

}  // namespace kl
