#include <lab/bench/steadiness.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/core/machine_load.hpp>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <vector>

namespace kl {
namespace {

// A virtual machine loses a few percent all the time, in ticks as long as a short block.
constexpr double kStolenShare = 0.25;
constexpr double kStolenSeconds = 0.03;
constexpr double kFrequencyShare = 0.8;

std::optional<double> number_of(int cpu, const char* name) {
  const auto content =
      read_file(fmt::format("/sys/devices/system/cpu/cpu{}/{}", cpu, name));
  double number = 0;
  if (!content || std::sscanf(content->c_str(), "%lf", &number) != 1) return std::nullopt;
  return number;
}

// Lines "cpuN user nice system idle iowait irq softirq steal …", in ticks.
std::optional<double> stolen_seconds(const std::vector<int>& processors) {
  const auto content = read_file("/proc/stat");
  if (!content) return std::nullopt;
  std::istringstream lines(*content);
  std::optional<double> stolen;
  for (std::string line; std::getline(lines, line) && line.starts_with("cpu");) {
    int cpu = 0;
    long long field[8] = {};
    if (std::sscanf(line.c_str(), "cpu%d %lld %lld %lld %lld %lld %lld %lld %lld", &cpu, &field[0],
                    &field[1], &field[2], &field[3], &field[4], &field[5], &field[6],
                    &field[7]) != 9)
      continue;
    if (std::find(processors.begin(), processors.end(), cpu) == processors.end()) continue;
    stolen = stolen.value_or(0) +
             static_cast<double>(field[7]) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return stolen;
}

}  // namespace

ClockSample sample_clocks() {
  const std::vector<int> processors = usable_processors();
  ClockSample sample;
  sample.processors = static_cast<int>(processors.size());
  sample.stolen_seconds = stolen_seconds(processors);
  for (const int cpu : processors) {
    if (const auto count = number_of(cpu, "thermal_throttle/core_throttle_count"))
      sample.throttle_events = sample.throttle_events.value_or(0) + static_cast<int64_t>(*count);
    if (const auto khz = number_of(cpu, "cpufreq/scaling_cur_freq"))
      sample.lowest_mhz = std::min(sample.lowest_mhz.value_or(*khz / 1000), *khz / 1000);
  }
  sample.at_ns = monotonic_ns();
  return sample;
}

int64_t count_foreign(const std::vector<std::string>& processes) {
  const auto hidden = std::count_if(processes.begin(), processes.end(), [](const auto& process) {
    return process.find("not visible") != std::string::npos;
  });
  return static_cast<int64_t>(processes.size()) - std::min<int64_t>(hidden, 1);
}

ClockSampler clocks_of(const Engine& engine) {
  return [&engine] {
    ClockSample sample = sample_clocks();
    const auto readings = engine.readings();
    if (!readings) return sample;
    sample.device_throttled = readings->throttle_reasons;
    if (readings->foreign_processes)
      sample.device_foreign = count_foreign(*readings->foreign_processes);
    return sample;
  };
}

std::string disturbance(const ClockSample& before, const ClockSample& after, double fastest_mhz) {
  for (const ClockSample* sample : {&before, &after})
    if (sample->device_throttled && !sample->device_throttled->empty())
      return "the device's clocks were lowered: " + sample->device_throttled->front();
  if (before.device_foreign && after.device_foreign &&
      std::max(*before.device_foreign, *after.device_foreign) > 0)
    return "another process computed on the device";
  if (before.throttle_events && after.throttle_events &&
      *after.throttle_events > *before.throttle_events)
    return fmt::format("{} thermal throttle events",
                       *after.throttle_events - *before.throttle_events);
  if (before.stolen_seconds && after.stolen_seconds) {
    const double stolen = *after.stolen_seconds - *before.stolen_seconds;
    const double available =
        1e-9 * static_cast<double>(after.at_ns - before.at_ns) * after.processors;
    if (stolen > kStolenSeconds - 1e-9 && stolen > kStolenShare * available)
      return fmt::format("the hypervisor took {:.0f} ms of {:.0f} ms processor time",
                         1e3 * stolen, 1e3 * available);
  }
  if (after.lowest_mhz && *after.lowest_mhz < kFrequencyShare * fastest_mhz)
    return fmt::format("a processor ran at {:.0f} MHz, {:.0f} MHz before", *after.lowest_mhz,
                       fastest_mhz);
  return {};
}

}  // namespace kl
