// Were timed calls right? Compares what a timed call left in its tensors with the oracle, in the
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
  bool needs_whole = false;  // an output that no row can show wrong is as it was before the call
};

class TimedChecker {
 public:
  TimedChecker(const Target& target, const OracleLibrary& oracle)
      : target_(target), oracle_(oracle) {}

  // Every element of every output; large ones in chunks of rows on all cores.
  Result<TimedCheck> whole(const SeamCase& seam_case, const FinishedCall& call) const;
  // Random rows of the case; none where it has no row axis.
  std::vector<int64_t> draw_rows(const SeamCase& seam_case, int count,
                                 std::mt19937_64& random) const;
  // These rows of the outputs that have the target's row axis first; nothing to compare when there
  // is no such output. Rows are independent, so the oracle needs no others. `needs_whole` when
  // another output was not touched: then compare everything.
  Result<TimedCheck> rows(const SeamCase& seam_case, const FinishedCall& call,
                          const std::vector<int64_t>& rows) const;

 private:
  Result<OperationData> taken(const SeamCase& seam_case, const FinishedCall& call,
                              const std::vector<int64_t>* rows) const;
  Outcome judge_one(const SeamCase& seam_case, const FinishedCall& call, size_t output,
                    const OracleOutput& expected, const std::vector<int64_t>* rows,
                    TimedCheck& check) const;
  Result<TimedCheck> compare(const SeamCase& seam_case, const FinishedCall& call,
                             const std::vector<int64_t>* rows) const;
  Result<TimedCheck> by_chunks(const SeamCase& seam_case, const FinishedCall& call,
                               int64_t row_count) const;
  const Target& target_;
  const OracleLibrary& oracle_;
};

}  // namespace kl
