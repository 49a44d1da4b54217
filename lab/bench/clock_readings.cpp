#include <lab/bench/clock_readings.hpp>

#include <lab/core/files.hpp>
#include <lab/core/fingerprint.hpp>

#include <cstdio>
#include <sstream>

namespace kl {
namespace {

constexpr const char* kFrequency = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq";
constexpr const char* kThrottle =
    "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count";

std::optional<double> read_number(const char* path) {
  const auto content = read_file(path);
  double number = 0;
  if (!content || std::sscanf(content->c_str(), "%lf", &number) != 1) return std::nullopt;
  return number;
}

std::string frequency_mhz() {
  const auto khz = read_number(kFrequency);
  return khz ? std::to_string(static_cast<int64_t>(*khz / 1000)) : "unknown";
}

}  // namespace

ClockWatch::ClockWatch() : cpu_time_(read_cpu_time()), throttle_count_(read_throttle_count()) {
  readings_.frequency_mhz_before = frequency_mhz();
  readings_.governor = current_session().governor;
  readings_.load_before = read_number("/proc/loadavg");
}

ClockReadings ClockWatch::finish() const {
  ClockReadings readings = readings_;
  readings.frequency_mhz_after = frequency_mhz();
  readings.load_after = read_number("/proc/loadavg");
  if (const auto count = read_throttle_count(); count && throttle_count_)
    readings.throttle_events = std::to_string(*count - *throttle_count_);
  if (const auto now = read_cpu_time(); now && cpu_time_ && now->total > cpu_time_->total)
    readings.stolen_cpu_share =
        (now->stolen - cpu_time_->stolen) / (now->total - cpu_time_->total);
  return readings;
}

// First line of /proc/stat: user nice system idle iowait irq softirq steal …, in ticks.
std::optional<ClockWatch::CpuTime> ClockWatch::read_cpu_time() {
  const auto content = read_file("/proc/stat");
  if (!content) return std::nullopt;
  std::istringstream line(content->substr(0, content->find('\n')));
  std::string label;
  CpuTime time;
  if (!(line >> label) || label != "cpu") return std::nullopt;
  double ticks = 0;
  for (int field = 0; field < 8 && line >> ticks; ++field) {
    time.total += ticks;
    if (field == 7) time.stolen = ticks;
  }
  return time;
}

std::optional<int64_t> ClockWatch::read_throttle_count() {
  const auto count = read_number(kThrottle);
  if (!count) return std::nullopt;
  return static_cast<int64_t>(*count);
}

}  // namespace kl
