#include <lab/worker/death.hpp>

#include <lab/worker/protocol.hpp>

#include <fmt/format.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace kl {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string system_call_name(int number) {
  char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  if (name == nullptr) return fmt::format("system call {}", number);
  std::string text(name);
  std::free(name);
  return text;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

Fault denied_call(const StatusPage& page, uint64_t arena) {
  const std::string name = system_call_name(page.syscall);
  return {Status::rejected, std::string(rule_of_system_call(name, page.arguments, arena)),
          fmt::format("called {}({:#x}, {:#x}, {:#x}) during {}, which a candidate may not", name,
                      page.arguments[0], page.arguments[1], page.arguments[2],
                      to_string(static_cast<Phase>(page.phase.load())))};
}

Fault touched_buffer(const StatusPage& page, const SharedBuffers& buffers,
                     const SharedBuffers::Touched& touched) {
  const auto phase = to_string(static_cast<Phase>(page.phase.load()));
  if (touched.id < 0)
    return {Status::rejected, "out-of-bounds",
            fmt::format("touched {:#x}, where shared buffers lie but none is, during {}", page.address, phase)};
  const std::string name = buffers.name(touched.id);
  const BufferRole role = buffers.role(touched.id);
  if (!touched.inside) {
    const char* rule = role == BufferRole::scratch ? "scratch-overflow"
                       : role == BufferRole::saved ? "saved-overflow"
                                                   : "out-of-bounds";
    return {Status::rejected, rule,
            fmt::format("touched byte {} of {} during {}", touched.offset, name, phase)};
  }
  if (role == BufferRole::input)
    return {Status::rejected, "writes-input",
            fmt::format("wrote byte {} of {} during {}", touched.offset, name, phase)};
  return {Status::rejected, "late-write",
          fmt::format("wrote byte {} of {} while no call that owns it was running (thread {})",
                      touched.offset, name, page.thread)};
}

bool is_near_stack(const StatusPage& page) {
  constexpr uint64_t kReach = 1 << 20;
  return page.stack_pointer != 0 && page.address != 0 && page.address + kReach > page.stack_pointer &&
         page.address < page.stack_pointer + kReach;
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::starting: return "start";
    case Phase::idle: return "no call";
    case Phase::load: return "load";
    case Phase::domain: return "domain";
    case Phase::prepare: return "prepare";
    case Phase::run: return "run";
    case Phase::inspect: return "inspect";
    case Phase::flush: return "flush";
  }
  return "an unknown phase";
}

std::string_view rule_of_system_call(std::string_view name, const uint64_t (&arguments)[3], uint64_t arena) {
  if (is_one_of(name, {"fork", "vfork", "clone", "clone3", "execve", "execveat"})) return "child-process";
  if (is_one_of(name, {"sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr",
                       "setpriority", "ioprio_set", "mbind", "set_mempolicy", "migrate_pages",
                       "move_pages"}))
    return name == "sched_setaffinity" ? "affinity" : "scheduling";
  if (is_one_of(name, {"socket", "socketpair", "connect", "bind", "listen", "accept", "accept4"}))
    return "network";
  if (is_one_of(name, {"write", "writev", "pwrite64", "pwritev", "pwritev2", "vmsplice", "tee"}))
    return static_cast<int>(arguments[0]) == protocol::kChannelFd ? "forged-answer" : "writes-file";
  if (is_one_of(name, {"read", "readv", "close", "shutdown", "setsockopt", "sendto", "sendmsg",
                       "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "dup", "dup2", "dup3"}))
    return "forged-answer";
  if (is_one_of(name, {"open", "openat", "openat2", "creat", "unlink", "unlinkat", "rename", "renameat",
                       "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat", "symlink",
                       "symlinkat", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "chown",
                       "fchown", "lchown", "fchownat", "truncate", "ftruncate", "fallocate",
                       "memfd_create", "shmget", "mq_open"}))
    return "writes-file";
  if (is_one_of(name, {"mprotect", "pkey_mprotect", "munmap", "mremap", "madvise", "mmap"})) {
    const bool in_arena = arguments[0] - arena < protocol::kArenaBytes;
    if (!in_arena && name != "munmap" && name != "mremap" && name != "madvise" &&
        (arguments[2] & PROT_EXEC) != 0)
      return "patches-code";
    return "unlocks-buffer";
  }
  return "forbidden-syscall";
}

Fault fault_of_death(const StatusPage& page, int wait_status, const SharedBuffers& buffers,
                     uint64_t arena) {
  const auto phase = to_string(static_cast<Phase>(page.phase.load()));
  if (page.signal == SIGSYS) return denied_call(page, arena);
  const bool raised = page.code <= 0;  // by a process, so that no address comes with it
  if (!raised && (page.signal == SIGSEGV || page.signal == SIGBUS)) {
    if (const auto touched = buffers.touched(page.address)) return touched_buffer(page, buffers, *touched);
    if (is_near_stack(page))
      return {Status::execution_failed, "stack-overflow",
              fmt::format("{} at {:#x} beside the stack pointer {:#x} during {}", signal_name(page.signal),
                          page.address, page.stack_pointer, phase)};
  }
  if (page.signal != 0 && raised)
    return {Status::execution_failed, "crash",
            fmt::format("{} raised by itself during {}", signal_name(page.signal), phase)};
  if (page.signal != 0)
    return {Status::execution_failed, "crash",
            fmt::format("{} at address {:#x} during {}", signal_name(page.signal), page.address, phase)};
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGSYS)
    return {Status::rejected, "forbidden-syscall",
            fmt::format("a denied system call during {}, with its signal blocked", phase)};
  if (WIFSIGNALED(wait_status))
    return {Status::execution_failed, "crash",
            fmt::format("killed by {} during {}", signal_name(WTERMSIG(wait_status)), phase)};
  return {Status::execution_failed, "early-exit",
          fmt::format("exited with code {} during {}", WEXITSTATUS(wait_status), phase)};
}

}  // namespace kl
