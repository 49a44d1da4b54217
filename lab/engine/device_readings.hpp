// What a device says about its own steadiness. A reading that cannot be had is null, never 0.
#pragma once

#include <lab/core/record.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kl {

struct DeviceReadings {
  std::optional<int64_t> sm_mhz, memory_mhz, sm_max_mhz;
  std::optional<std::vector<std::string>> throttle_reasons;  // those that lower clocks now
  std::optional<double> power_watts, power_limit_watts;
  std::optional<int64_t> temperature_celsius;
  std::optional<std::vector<std::string>> foreign_processes;  // "pid 4711, 512 MiB"
  std::optional<bool> mig_enabled;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("sm_mhz", self.sm_mhz, "clock of the multiprocessors; null: unknown");
    v("memory_mhz", self.memory_mhz, "clock of the memory; null: unknown");
    v("sm_max_mhz", self.sm_max_mhz, "highest clock of the multiprocessors; null: unknown");
    v("throttle_reasons", self.throttle_reasons, "what lowers clocks now; null: unknown");
    v("power_watts", self.power_watts, "drawn; null: unknown");
    v("power_limit_watts", self.power_limit_watts, "enforced; null: unknown");
    v("temperature_celsius", self.temperature_celsius, "of the chip; null: unknown");
    v("foreign_processes", self.foreign_processes, "other processes that compute there; null: unknown");
    v("mig_enabled", self.mig_enabled, "the device is a partition; null: unknown");
  }
};

}  // namespace kl
