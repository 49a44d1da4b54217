// One shape's buffers and prepared calls in one worker. Verify keeps a site while the contents of
// its case group change; bench keeps one per arm.
#pragma once

#include <lab/verify/oracle_run.hpp>
#include <lab/verify/strided.hpp>
#include <lab/worker/worker.hpp>

#include <map>
#include <memory>
#include <optional>

namespace kl {

// The kernel's `accepts` said no: the champion would run instead.
struct Declined {
  std::string operation;
  std::string why;
};

// Bytes of every output of one operation, as they were when `run` returned.
using OutputBytes = std::vector<std::vector<std::byte>>;

class CallSite {
 public:
  // Buffers for the shapes of `sample` (its contents do not matter), shared by name between the
  // operations; one `saved` blob; every operation prepared. Adds to what the worker holds.
  static OrFault<std::variant<CallSite, Declined>> create(Worker& worker, ArmId arm,
                                                          const CaseData& sample);

  // New contents at the same pointers. Outputs get their base or the poison of `pattern`; saved is
  // poisoned too.
  OrFault<std::monostate> write(const CaseData& data, int pattern);
  // Poisons scratch, runs, copies the outputs at once. An error code of the kernel is a Fault.
  OrFault<OutputBytes> run(size_t operation, int pattern);
  // Outputs of a captured graph's replay where they differ from the last `run` of the operation.
  const std::map<size_t, OutputBytes>& replays() const { return replays_; }
  // Nodes of the graph that `run` was captured into, by operation; empty where nothing is captured.
  const std::map<size_t, int32_t>& graph_nodes() const { return graph_nodes_; }
  // A Fault "writes-input" when an input differs from what `write` put there.
  std::optional<Fault> check_inputs(const CaseData& data) const;
  // A Fault "late-write" when an output changed since it was copied.
  std::optional<Fault> check_settled(size_t operation, const OutputBytes& copied) const;

  CallId call(size_t operation) const { return calls_[operation]; }
  size_t operations() const { return calls_.size(); }

 private:
  // One tensor's buffer; -1: absent. `rows` when its rows are those of a tile, repeated.
  struct Held {
    BufferId buffer = -1;
    Layout layout;
    const RowExpansion* rows = nullptr;
  };
  CallSite(Worker& worker, std::shared_ptr<const RowExpansion> expansion)
      : worker_(&worker), expansion_(std::move(expansion)) {}
  OrFault<std::monostate> allocate(const CaseData& sample);
  OrFault<BufferId> buffer(BufferRole role, size_t bytes);
  Held held(const TensorSpec& spec, const TensorData& tensor) const;
  CallBinding bind(const OperationData& operation, size_t index, bool with_buffers) const;
  void put(const Held& held, const TensorData& tensor, int pattern);
  OrFault<std::monostate> fetch(const std::vector<Held>& tensors) const;
  OrFault<OutputBytes> collect(size_t operation) const;
  bool holds(const Held& held, const TensorData& tensor) const;

  Worker* worker_;
  std::shared_ptr<const RowExpansion> expansion_;
  std::map<std::string, Held> inputs_;
  std::vector<std::vector<Held>> outputs_;
  std::map<size_t, OutputBytes> replays_;
  std::map<size_t, int32_t> graph_nodes_;
  int pattern_ = 0;
  std::vector<BufferId> scratch_;
  BufferId saved_ = -1;
  std::vector<CallId> calls_;
};

}  // namespace kl

// KL_FAULT_TRY(auto x, f()): x is f's value, or the enclosing function returns f's Fault.
#define KL_FAULT_TRY(decl, expr) KL_FAULT_TRY_IMPL(decl, expr, KL_CONCAT(kl_fault_, __LINE__))
#define KL_FAULT_TRY_IMPL(decl, expr, tmp)                                   \
  auto tmp = (expr);                                                         \
  if (const auto* f = std::get_if<kl::Fault>(&tmp); f != nullptr) return *f; \
  decl = std::get<0>(std::move(tmp))
