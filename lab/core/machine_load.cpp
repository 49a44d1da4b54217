#include <lab/core/machine_load.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>

#include <fmt/format.h>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace kl {
namespace {

constexpr double kLeastSeconds = 0.5;

double own_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    if (::getrusage(who, &usage) != 0) continue;
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return seconds;
}

}  // namespace

std::vector<int> usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
  return processors;
}

// Lines "cpuN user nice system idle iowait irq softirq steal …", in ticks.
std::optional<double> busy_seconds(std::string_view stat, const std::vector<int>& processors, double ticks_per_second) {
  std::istringstream lines{std::string(stat)};
  std::optional<double> busy;
  for (std::string line; std::getline(lines, line) && line.starts_with("cpu");) {
    int cpu = 0;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, softirq = 0;
    if (std::sscanf(line.c_str(), "cpu%d %lf %lf %lf %lf %lf %lf %lf", &cpu, &user, &nice, &system, &idle, &waiting, &irq, &softirq) != 8) continue;
    if (std::find(processors.begin(), processors.end(), cpu) == processors.end()) continue;
    busy = busy.value_or(0) + (user + nice + system + irq + softirq) / ticks_per_second;
  }
  return busy;
}

std::optional<ProcessorTime> read_processor_time() {
  const auto stat = read_file("/proc/stat");
  if (!stat) return std::nullopt;
  const auto busy = busy_seconds(*stat, usable_processors(), static_cast<double>(::sysconf(_SC_CLK_TCK)));
  if (!busy) return std::nullopt;
  return ProcessorTime{monotonic_ns(), *busy, own_seconds()};
}

std::optional<MachineLoad> load_between(const std::optional<ProcessorTime>& before, const std::optional<ProcessorTime>& after) {
  if (!before || !after) return std::nullopt;
  const double wall = 1e-9 * static_cast<double>(after->at_ns - before->at_ns);
  if (wall < kLeastSeconds) return std::nullopt;
  const double others = (after->busy - before->busy) - (after->own - before->own);
  return MachineLoad{wall, std::max(0.0, others / wall)};
}

std::string disturbance(const MachineLoad& load) {
  if (load.others_processors <= kMostOthersProcessors) return {};
  return fmt::format("other processes used {:.2f} processors meanwhile, more than {:g}", load.others_processors, kMostOthersProcessors);
}

}  // namespace kl
