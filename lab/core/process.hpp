// Child processes: started in a group of their own, bounded in time and output, never left behind.
#pragma once

#include <lab/core/result.hpp>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

struct Command {
  std::vector<std::string> arguments;         // arguments[0] is searched in PATH
  std::map<std::string, std::string> environment;  // added to, or replacing, the parent's
  std::vector<std::string> unset;             // names removed from the child's environment
  std::filesystem::path folder;               // working folder; empty: the parent's
  double timeout_seconds = 600;
  size_t output_limit_bytes = 1 << 20;        // kept per stream; the rest is read and dropped
  std::function<void(std::string_view)> on_stdout;  // called with each chunk as it arrives
  std::function<bool()> cancelled;            // asked some fifty times a second; true ends the child
  bool pass_stderr = false;                   // the child writes to the parent's stderr
};

struct Finished {
  int exit_code = -1;  // -1 when killed by a signal
  int signal = 0;      // 0 unless killed by one
  bool timed_out = false;
  bool cancelled = false;
  bool output_truncated = false;
  double wall_seconds = 0;
  int64_t peak_rss_bytes = 0;
  std::string out;
  std::string err;
  bool ok() const { return exit_code == 0 && signal == 0 && !timed_out && !cancelled; }
};

// An Error only when the child could not be started (missing program: Status::missing_tool).
Result<Finished> run_process(const Command& command);

// Folder of the running executable, with symbolic links resolved.
std::filesystem::path executable_folder();

}  // namespace kl
