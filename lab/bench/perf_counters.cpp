#include <lab/bench/perf_counters.hpp>

#include <lab/core/files.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kl {
namespace {

int open_event(const CounterEvent& event, int thread) {
  perf_event_attr wanted{};
  wanted.size = sizeof wanted;
  wanted.type = event.type;
  wanted.config = event.config;
  wanted.disabled = 1;
  wanted.exclude_kernel = 1;
  wanted.exclude_hv = 1;
  wanted.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return static_cast<int>(::syscall(SYS_perf_event_open, &wanted, thread, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

std::vector<int> threads_of(int process_id) {
  std::vector<int> threads;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/task", process_id), error))
    threads.push_back(std::atoi(entry.path().filename().c_str()));
  return threads;
}

std::string paranoid_level() {
  auto text = read_file("/proc/sys/kernel/perf_event_paranoid");
  if (!text.ok()) return "unknown";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

CounterReading missing(const std::string& name, int error) {
  if (error == EACCES || error == EPERM)
    return {name, {}, fmt::format("not permitted (kernel.perf_event_paranoid is {})", paranoid_level()),
            "sysctl -w kernel.perf_event_paranoid=1"};
  if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP)
    return {name, {}, "this machine does not count it (virtual machines often do not)", "measure on the machine itself"};
  if (error == ENOSYS) return {name, {}, "perf_event_open is not there", "allow it in the container's seccomp profile"};
  return {name, {}, fmt::format("perf_event_open: {}", std::strerror(error)), ""};
}

}  // namespace

std::vector<CounterEvent> hardware_events() {
  return {{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
          {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
          {"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
          {"stalled_cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND}};
}

PerfCounters::PerfCounters(int process_id, const std::vector<CounterEvent>& events) {
  const std::vector<int> threads = threads_of(process_id);
  for (const CounterEvent& event : events) {
    Counter& counter = counters_.emplace_back(Counter{event.name, {}, threads.empty() ? ESRCH : 0});
    for (const int thread : threads) {
      const int file = open_event(event, thread);
      if (file >= 0)
        counter.files.push_back(file);
      else
        counter.error = errno;
      if (counter.error != 0) break;
    }
  }
}

PerfCounters::~PerfCounters() {
  for (const Counter& counter : counters_)
    for (const int file : counter.files) ::close(file);
}

void PerfCounters::each(unsigned long request) {
  for (const Counter& counter : counters_)
    for (const int file : counter.files) ::ioctl(file, request, 0);
}
void PerfCounters::start() { each(PERF_EVENT_IOC_ENABLE); }
void PerfCounters::stop() { each(PERF_EVENT_IOC_DISABLE); }

std::vector<CounterReading> PerfCounters::read() const {
  std::vector<CounterReading> readings;
  for (const Counter& counter : counters_) {
    if (counter.error != 0) {
      readings.push_back(missing(counter.name, counter.error));
      continue;
    }
    double sum = 0;
    bool counted = false;
    for (const int file : counter.files) {
      uint64_t values[3] = {};  // count, enabled, running
      if (::read(file, values, sizeof values) != sizeof values || values[2] == 0) continue;
      counted = true;
      sum += static_cast<double>(values[0]) * static_cast<double>(values[1]) / static_cast<double>(values[2]);
    }
    if (counted)
      readings.push_back({counter.name, sum, "", ""});
    else
      readings.push_back({counter.name, {}, "the kernel gave it no counter while calls ran", "end other profilers"});
  }
  return readings;
}

}  // namespace kl
