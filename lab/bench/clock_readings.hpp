// What can be read about the steadiness of the machine while a bench runs.
#pragma once

#include <lab/core/record.hpp>

namespace kl {

// Readings that say whether the machine was steady. "unknown" is not zero.
struct ClockReadings {
  std::string frequency_mhz_before = "unknown", frequency_mhz_after = "unknown";
  std::string governor = "unknown";
  std::string throttle_events = "unknown";
  std::string cycles = "unknown";               // hardware cycle counts
  std::optional<double> load_before, load_after;  // one-minute load average
  std::optional<double> stolen_cpu_share;       // of all processors, while measuring

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("frequency_mhz_before", self.frequency_mhz_before, "of processor 0, or unknown");
    v("frequency_mhz_after", self.frequency_mhz_after, "of processor 0, or unknown");
    v("governor", self.governor, "frequency governor, or unknown");
    v("throttle_events", self.throttle_events, "of processor 0 while measuring, or unknown");
    v("cycles", self.cycles, "whether cycles and time agree, or unknown");
    v("load_before", self.load_before, "one-minute load average before; null: unknown");
    v("load_after", self.load_after, "one-minute load average after; null: unknown");
    v("stolen_cpu_share", self.stolen_cpu_share,
      "time the hypervisor took, of all processors; null: unknown");
  }
};

// Reads once at construction and once at `finish`.
class ClockWatch {
 public:
  ClockWatch();
  ClockReadings finish() const;

 private:
  struct CpuTime {
    double total = 0, stolen = 0;
  };
  static std::optional<CpuTime> read_cpu_time();
  static std::optional<int64_t> read_throttle_count();

  ClockReadings readings_;
  std::optional<CpuTime> cpu_time_;
  std::optional<int64_t> throttle_count_;
};

}  // namespace kl
