// Does the worker's own time of a call fit what its parent saw?
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kl {

// CLOCK_MONOTONIC is one clock for all processes, so the call has to lie inside the parent's
// bracket. Work hidden from the worker's time costs processor time, which the system counts; the
// parent's wall time alone cannot tell it from a busy machine.
struct ClockEvidence {
  int64_t parent_begin_ns = 0, parent_end_ns = 0;
  int64_t worker_begin_ns = 0, worker_end_ns = 0;
  int64_t processor_ns = 0;   // used by all threads of the worker inside the bracket
  int64_t protection_ns = 0;  // of that, the host's own
  int threads = 1;
};

// What does not fit, or nothing. Tolerates 25 % and 300 µs of processor time.
std::optional<std::string> clock_disagreement(const ClockEvidence& evidence);

}  // namespace kl
