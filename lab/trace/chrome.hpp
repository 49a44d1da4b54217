// A trace as Chrome's JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <lab/trace/model.hpp>

#include <string>

namespace kl::trace {

struct ChromeTrace {
  std::string json;
  int64_t events = 0;  // that have a duration
};

// Devices are processes with a track a stream; host threads have their ranges and calls. Times begin at the trace's
// first moment, in microseconds with three decimals, so that no nanosecond is lost.
ChromeTrace chrome_json(const TraceModel& model);

}  // namespace kl::trace
