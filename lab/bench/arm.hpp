// One kernel at every shape of the seam, in one worker, on buffers of its own.
#pragma once

#include <lab/bench/seam_case.hpp>
#include <lab/bench/timed_check.hpp>
#include <lab/worker/worker.hpp>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace kl {

// Which operation at which shape; calls of both arms are numbered alike: shape-major.
struct CallSlot {
  size_t seam_case = 0;
  size_t operation = 0;
};
std::vector<CallSlot> call_slots(const Target& target, size_t cases);

class Arm {
 public:
  // Buffers, domain and plans at every shape. `fallback` takes the shapes that `library` does not
  // accept, as the champion does in the trainer; without one that is a Fault ("outside-domain").
  static OrFault<Arm> create(Worker& worker, const Target& target,
                             const std::vector<SeamCase>& cases, ArmId library,
                             std::optional<ArmId> fallback);

  // Rewrites the inputs that only this operation has (the first operation of a repetition writes
  // the shared ones) and poisons its outputs; the saved blob too before the first operation.
  OrFault<std::monostate> renew(const CallSlot& slot, std::mt19937_64& random);
  OrFault<CallTiming> run(const CallSlot& slot, bool cold);
  // Once more with every check of the worker, most of which would disturb a timed call.
  OrFault<CallTiming> run_checked(const CallSlot& slot);
  // Brings these rows of the last call's tensors, and what has no rows, where `finished` shows
  // them; null: everything.
  OrFault<std::monostate> fetch(const CallSlot& slot, const std::vector<int64_t>* rows);
  // The tensors of the last call of this slot, for the checker.
  FinishedCall finished(const CallSlot& slot) const;
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  struct Bound {
    CallId call = -1;
    std::vector<BufferId> inputs, outputs;         // -1: absent
    std::vector<std::optional<Draw>> base_draws;   // of accumulate and inout outputs
    std::vector<bool> fresh;                       // inputs this operation is the first to read
    BufferId scratch = -1;
  };
  struct PerCase {
    std::vector<Bound> operations;
    BufferId saved = -1;
    int pattern = 0;  // alternates, so that old poison is not taken for new
  };

  Arm(Worker& worker, const Target& target, const std::vector<SeamCase>& cases)
      : worker_(&worker), target_(&target), cases_(&cases) {}
  std::optional<Fault> bind(size_t index, ArmId library, std::optional<ArmId> fallback);
  std::optional<Fault> bind_library(size_t index, ArmId library);
  OrFault<BufferId> buffer_with_pool(BufferRole role, const TensorData& pool);
  OrFault<std::monostate> fetch_tensor(const TensorSpec& spec, const TensorData& tensor,
                                       BufferId buffer, const std::vector<int64_t>* rows);
  OrFault<std::monostate> draw(BufferId buffer, const Draw& draw);
  OrFault<CallTiming> succeeded(const CallSlot& slot, OrFault<CallTiming> ran) const;

  Worker* worker_;
  const Target* target_;
  const std::vector<SeamCase>* cases_;
  std::vector<PerCase> bound_;
  std::vector<std::string> refusals_;
};

}  // namespace kl
