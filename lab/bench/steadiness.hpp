// Was the machine steady while a block ran? Read before and after each block, on the processors
// this process may use. What cannot be read is absent and disturbs nothing.
#pragma once

#include <lab/engine/engine.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kl {

struct ClockSample {
  int64_t at_ns = 0;
  int processors = 0;                         // this process may use
  std::optional<double> stolen_seconds;       // taken by the hypervisor, all those processors
  std::optional<int64_t> throttle_events;     // all those processors
  std::optional<double> lowest_mhz;           // of those processors, now
  // Of the device, where the engine has one.
  std::optional<std::vector<std::string>> device_throttled;  // what lowers its clocks now
  std::optional<int64_t> device_foreign;                     // other processes that compute there
};

using ClockSampler = std::function<ClockSample()>;

// Linux: steal time of /proc/stat (in ticks of 10 ms), thermal throttle counts, current frequency.
ClockSample sample_clocks();
// The same with the readings of an engine's device: every engine outlives its sampler.
ClockSampler clocks_of(const Engine& engine);
// Of the foreign processes a device names, those that cannot be the lab's own worker: in a
// container that has a process id of the host's, under which it is not visible.
int64_t count_foreign(const std::vector<std::string>& processes);

// Why what ran between the samples does not count; empty when nothing says so. `fastest_mhz`: the
// highest `lowest_mhz` seen so far, or 0.
std::string disturbance(const ClockSample& before, const ClockSample& after, double fastest_mhz);

}  // namespace kl
