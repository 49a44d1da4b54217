// What the worker may not do, applied after its own set-up and before a candidate is loaded. Each
// measure that cannot be applied here is reported, not fatal.
#pragma once

#include <cstdint>

namespace kl {

bool forbid_new_privileges();
// Landlock: every file read-only, no execution, no TCP, signals and abstract sockets stay inside.
// Device files (/dev/nvidia*) stay writable for a worker whose calls run on a device.
bool forbid_writing_files(bool for_device);
// System call filter of the whole process: no children, no writing, no network, nothing done to
// other processes, priorities or affinity. A denied call raises SIGSYS.
// A device's driver opens its files, binds memory and places its threads: that stays allowed, and
// what it might try in passing fails with EPERM instead of ending the process.
bool filter_process(bool for_device);
// On top, for the candidate's thread and every thread it creates: hands off the channel, signal
// handlers, limits and memory protection of the arena.
// Where calls run on a device, of memory protection nothing: the driver changes its own.
bool filter_candidate_thread(uint64_t arena, bool for_device);
// No core files, no written files, few descriptors; memory beyond what is mapped now is bounded.
// A device's driver maps the device's memory and opens a file for each mapping: no such bounds there.
bool limit_resources(int64_t memory_bytes, bool for_device);

}  // namespace kl
