// One page of shared memory, owned by the parent, where a dying worker says why: written by signal
// handlers only, so everything in it is a plain word.
#pragma once

#include <atomic>
#include <cstdint>

namespace kl {

// What the candidate was doing. Written before control passes to it.
enum class Phase : uint32_t { starting, idle, load, domain, prepare, run, inspect, flush };

struct StatusPage {
  std::atomic<uint32_t> phase;
  std::atomic<uint32_t> claimed;  // the first thread to die writes; others wait
  int32_t signal;                 // 0 unless a signal handler ran
  int32_t code;                   // si_code
  uint64_t address;               // si_addr
  uint64_t stack_pointer;
  int32_t syscall;                // of SIGSYS
  int32_t thread;
  uint64_t arguments[3];          // of the denied system call
  std::atomic<uint32_t> stopped_by_host;  // the host itself gave up (protocol broken, parent gone)
};
static_assert(sizeof(StatusPage) <= 4096);

}  // namespace kl
