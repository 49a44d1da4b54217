// What a process has, read from /proc by its parent: threads, children, open files, mapped files.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace kl {

struct MappedFile {
  bool executable = false;      // some of it is
  std::set<std::string> files;  // device and inode: more than one when a name was used again
};

struct ProcessView {
  std::map<pid_t, std::string> threads;      // id → affinity mask, "0-3,8"
  std::map<pid_t, std::string> thread_names;
  std::set<pid_t> children;
  std::map<int, std::string> open_files;     // descriptor → what it is
  std::map<std::string, MappedFile> mapped_files;  // by path, which ends in " (deleted)" once unlinked
};

// Mappings between `skip_begin` and `skip_end` are the lab's own shared buffers.
ProcessView view_process(pid_t pid, uint64_t skip_begin, uint64_t skip_end);
// Paths mapped in `now` and not in `before`. A file that was unlinked in between is not new.
std::vector<std::string> newly_mapped(const ProcessView& before, const ProcessView& now);
// Cheap enough for a timed call.
int count_threads(pid_t pid);
// Memory that is the process's own, without what it shares with its parent.
int64_t private_resident_bytes(pid_t pid);
// Consumed by all its threads since it started; 0 when it is gone.
int64_t processor_time_ns(pid_t pid);

}  // namespace kl
