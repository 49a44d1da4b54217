// What shows only after many calls: answers that stop being computed, memory that is never given
// back, state that lives outside `saved`.
#pragma once

#include <lab/build/loader.hpp>
#include <lab/verify/case_trial.hpp>

#include <optional>

namespace kl {

struct LaterCallsReport {
  int64_t calls = 0;
  int64_t elements = 0;
  int64_t resident_growth_bytes = 0;
  int open_files_growth = 0;
  std::optional<CaseFailure> failure;
  std::optional<Error> lab_error;  // the oracle refused; not the candidate's fault
};

// `rounds` times forward and backward of one shape, its contents changing in an irregular order
// between three draws at the same pointers; every answer compared. The worker's footprint is read
// after a quarter of the rounds and at the end: growth is a "leak".
LaterCallsReport try_later_calls(Worker& worker, ArmId arm, const OracleLibrary& oracle,
                                 const Target& target, const CaseGroup& group, uint64_t seed,
                                 int rounds);

// Two layers of a model: forward A, forward B, backward A, backward B, each with its own buffers.
LaterCallsReport try_interleaved(Worker& worker, ArmId arm, const OracleLibrary& oracle,
                                 const Target& target, const CaseGroup& group, uint64_t seed);

}  // namespace kl
