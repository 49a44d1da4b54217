// What the worker may not do, applied after its own set-up and before a candidate is loaded. Each
// measure that cannot be applied here is reported, not fatal.
#pragma once

#include <cstdint>

namespace kl {

bool forbid_new_privileges();
// Landlock: every file read-only, no execution, no TCP, signals and abstract sockets stay inside.
bool forbid_writing_files();
// System call filter of the whole process: no children, no writing, no network, nothing done to
// other processes, priorities or affinity. A denied call raises SIGSYS.
bool filter_process();
// On top, for the candidate's thread and every thread it creates: hands off the channel, signal
// handlers, limits and memory protection of the arena.
bool filter_candidate_thread(uint64_t arena);
// No core files, no written files, few descriptors; memory beyond what is mapped now is bounded.
bool limit_resources(int64_t memory_bytes);

}  // namespace kl
