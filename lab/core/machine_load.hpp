// How much of this machine's processors other processes used while something was measured.
#pragma once

#include <lab/core/record.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

// Seconds of processor time up to one moment, on the processors that this process may use.
struct ProcessorTime {
  int64_t at_ns = 0;  // monotonic
  double busy = 0;    // of all processes of the machine; what a hypervisor took is no work of theirs
  double own = 0;     // of this process and the children that have ended
};

struct MachineLoad {
  double wall_seconds = 0;
  double others_processors = 0;  // 1: what others did would fill one processor

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("wall_seconds", self.wall_seconds, "while it was measured");
    v("others_processors", self.others_processors, "work of other processes; 1 would fill one processor");
  }
};

std::vector<int> usable_processors();  // the numbers of those that this process may use

// Absent where /proc/stat cannot be read.
std::optional<ProcessorTime> read_processor_time();
// Of the text of /proc/stat: seconds that `processors` were busy; absent: none of them is in it.
std::optional<double> busy_seconds(std::string_view stat, const std::vector<int>& processors, double ticks_per_second);

// Absent without both readings, and in less time than the ticks of /proc/stat can divide.
std::optional<MachineLoad> load_between(const std::optional<ProcessorTime>& before, const std::optional<ProcessorTime>& after);

// A step of training waits at each of its barriers for the slowest thread, so what others take of one
// processor is time that every step can lose. A quarter makes a share wrong by a third of itself.
inline constexpr double kMostOthersProcessors = 0.25;
// Why a measurement beside this load does not stand for the machine; empty: it does.
std::string disturbance(const MachineLoad& load);

}  // namespace kl
