// Were timed calls right? Compares what a timed call left in shared memory with the oracle, in the
// parent, after the clock has stopped.
#pragma once

#include <lab/bench/seam_case.hpp>
#include <lab/build/loader.hpp>
#include <lab/verify/judge.hpp>

#include <functional>
#include <optional>
#include <random>
#include <string>

namespace kl {

// The tensors of a finished call: the parent's own mapping of inputs and outputs, and what
// accumulate and inout outputs held before.
struct FinishedCall {
  const OperationSpec* operation = nullptr;
  std::vector<const std::byte*> inputs;         // nullptr: absent
  std::vector<const std::byte*> outputs;        // nullptr: absent
  std::vector<std::optional<Draw>> base_draws;  // of accumulate and inout outputs
  int poison_pattern = 0;                       // of `write` outputs
};

struct TimedCheck {
  int64_t elements = 0;
  std::optional<FailingElement> failing;
  bool unwritten = false;  // the failing element still held the poison
};

class TimedChecker {
 public:
  TimedChecker(const Target& target, const OracleLibrary& oracle)
      : target_(target), oracle_(oracle) {}

  // Every element of every output.
  Result<TimedCheck> whole(const SeamCase& seam_case, const FinishedCall& call) const;
  // A few random rows of the outputs that have the target's row axis first; nothing to compare
  // when there is no such output. Rows are independent, so the oracle needs no others. Other
  // outputs that are as they were before the call have everything compared.
  Result<TimedCheck> rows(const SeamCase& seam_case, const FinishedCall& call, int count,
                          std::mt19937_64& random) const;

 private:
  Result<TimedCheck> compare(const SeamCase& seam_case, const FinishedCall& call,
                             const std::vector<int64_t>* rows) const;
  const Target& target_;
  const OracleLibrary& oracle_;
};

}  // namespace kl
