// Hardware counters of another process's threads (perf_event_open), user space only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kl {

struct CounterEvent {
  std::string name;     // "cycles"
  uint32_t type = 0;    // PERF_TYPE_…
  uint64_t config = 0;  // PERF_COUNT_…
};

// Cycles, instructions, cache misses, cycles stalled in the back end.
std::vector<CounterEvent> hardware_events();

struct CounterReading {
  std::string name;
  std::optional<double> value;  // over all threads, scaled where the kernel shared the counter out
  std::string missing;          // why there is no value
  std::string remedy;           // what would make it countable, or empty
};

class PerfCounters {
 public:
  // On every thread the process has now. An event that one thread cannot count is missing as a whole.
  PerfCounters(int process_id, const std::vector<CounterEvent>& events);
  PerfCounters(const PerfCounters&) = delete;
  PerfCounters& operator=(const PerfCounters&) = delete;
  ~PerfCounters();
  void start();
  void stop();
  std::vector<CounterReading> read() const;

 private:
  struct Counter {
    std::string name;
    std::vector<int> files;  // one a thread
    int error = 0;           // of the first that could not be opened
  };
  void each(unsigned long request);
  std::vector<Counter> counters_;
};

}  // namespace kl
