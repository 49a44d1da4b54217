#include <lab/worker/clock_check.hpp>

#include <fmt/format.h>

namespace kl {

std::optional<std::string> clock_disagreement(const ClockEvidence& e) {
  const int64_t parent_ns = e.parent_end_ns - e.parent_begin_ns;
  const int64_t worker_ns = e.worker_end_ns - e.worker_begin_ns;
  if (worker_ns < 0 || worker_ns > parent_ns)
    return fmt::format("the worker says {} ns, its parent measured {} ns around it", worker_ns, parent_ns);
  if (e.worker_begin_ns < e.parent_begin_ns || e.worker_end_ns > e.parent_end_ns)
    return fmt::format("the worker's call began {} ns after the request and ended {} ns before the answer",
                       e.worker_begin_ns - e.parent_begin_ns, e.parent_end_ns - e.worker_end_ns);
  const int64_t used = e.processor_ns - e.protection_ns;
  const int64_t hidden = used - worker_ns * e.threads;
  if (hidden > 300'000 && hidden > used / 4)
    return fmt::format("{} ns of processor time in a call said to take {} ns on {} threads", used,
                       worker_ns, e.threads);
  return std::nullopt;
}

}  // namespace kl
