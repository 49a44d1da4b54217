#include <confinement.hpp>

#include <lab/worker/protocol.hpp>

#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

namespace kl {
namespace {

// Landlock's interface by version 6; the kernel is asked which version it has. The names are ours
// because older system headers lack the later members.
struct LandlockRuleset {
  uint64_t handled_files;
  uint64_t handled_network;
  uint64_t scoped;
};
struct __attribute__((packed)) LandlockPath {
  uint64_t allowed;
  int32_t parent_fd;
};
constexpr uint64_t kWriteFile = 1u << 1, kReadFile = 1u << 2, kReadFolder = 1u << 3, kDeviceControl = 1u << 15;
constexpr int kPathBeneath = 1;
constexpr unsigned kAskVersion = 1;

long landlock_version() {
  return ::syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, kAskVersion);
}

void allow_device_files(int ruleset, uint64_t handled) {
  std::error_code code;
  for (std::filesystem::directory_iterator it("/dev", code), end; !code && it != end; it.increment(code)) {
    if (!it->path().filename().string().starts_with("nvidia")) continue;
    LandlockPath file{(kReadFile | kWriteFile | kDeviceControl) & handled, ::open(it->path().c_str(), O_PATH | O_CLOEXEC)};
    if (file.parent_fd < 0) continue;
    ::syscall(SYS_landlock_add_rule, ruleset, kPathBeneath, &file, 0u);
    ::close(file.parent_fd);
  }
}

// A filter that allows what it does not name.
class Filter {
 public:
  explicit Filter(uint32_t action) : context_(seccomp_init(SCMP_ACT_ALLOW)), action_(action) {
    ok_ = context_ != nullptr;
    // Without this, filtered threads may run with speculation limits and be slower than outside.
    if (ok_) seccomp_attr_set(context_, SCMP_FLTATR_CTL_SSB, 1);
  }
  ~Filter() {
    if (context_ != nullptr) seccomp_release(context_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  void deny(std::initializer_list<int> calls) {
    for (const int call : calls) deny(call, {});
  }
  void deny(int call, std::initializer_list<scmp_arg_cmp> when) {
    add(action_, call, when);
  }
  // Whatever the action of the others is: nothing but a candidate calls these.
  void trap(std::initializer_list<int> calls) {
    for (const int call : calls) add(SCMP_ACT_TRAP, call, {});
  }
  void add(uint32_t action, int call, std::initializer_list<scmp_arg_cmp> when) {
    if (!ok_) return;
    const int error = seccomp_rule_add_array(context_, action, call,
                                             static_cast<unsigned>(when.size()), when.begin());
    // A call this processor does not have needs no rule.
    ok_ = error == 0 || call < 0;
  }
  bool load() { return ok_ && seccomp_load(context_) == 0; }

 private:
  scmp_filter_ctx context_;
  uint32_t action_;
  bool ok_ = false;
};

using Argument = scmp_arg_cmp;
Argument equals(unsigned i, uint64_t value) { return {i, SCMP_CMP_EQ, value, 0}; }
Argument differs(unsigned i, uint64_t value) { return {i, SCMP_CMP_NE, value, 0}; }
Argument at_least(unsigned i, uint64_t value) { return {i, SCMP_CMP_GE, value, 0}; }
Argument masked(unsigned i, uint64_t mask, uint64_t value) {
  return {i, SCMP_CMP_MASKED_EQ, mask, value};
}

// Opening for anything but reading.
void deny_write_open(Filter& f, int call, unsigned flags) {
  for (const uint64_t mode : {O_WRONLY, O_RDWR, O_ACCMODE}) f.deny(call, {masked(flags, O_ACCMODE, mode)});
  for (const uint64_t flag : {O_CREAT, O_TRUNC, O_APPEND}) f.deny(call, {masked(flags, flag, flag)});
}

// Memory of the shared buffers, and code.
void protect_arena(Filter& f, uint64_t arena) {
  const uint64_t inside = ~(protocol::kArenaBytes - 1);
  const auto in_arena = [&](unsigned i) { return masked(i, inside, arena); };
  const auto far_reaching = [](unsigned i) { return at_least(i, protocol::kArenaMargin); };
  for (const int call : {SCMP_SYS(mprotect), SCMP_SYS(pkey_mprotect), SCMP_SYS(munmap),
                         SCMP_SYS(mremap), SCMP_SYS(madvise)}) {
    f.deny(call, {in_arena(0)});
    f.deny(call, {far_reaching(1)});
  }
  f.deny(SCMP_SYS(mremap), {in_arena(4)});
  f.deny(SCMP_SYS(mmap), {in_arena(0)});
  f.deny(SCMP_SYS(mmap), {far_reaching(1), masked(3, MAP_FIXED, MAP_FIXED)});
  f.deny({SCMP_SYS(remap_file_pages), SCMP_SYS(pkey_alloc), SCMP_SYS(pkey_free)});
  // Code comes from the library's file and is never made or changed afterwards.
  for (const int call : {SCMP_SYS(mprotect), SCMP_SYS(pkey_mprotect)})
    f.deny(call, {masked(2, PROT_EXEC, PROT_EXEC)});
  f.deny(SCMP_SYS(mmap), {masked(2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC)});
  f.deny(SCMP_SYS(mmap), {masked(2, PROT_EXEC, PROT_EXEC), masked(3, MAP_ANONYMOUS, MAP_ANONYMOUS)});
}

// The channel, signal handlers, limits and filters.
void protect_host(Filter& f, bool for_device) {
  // The channel: only stdout and stderr may be written, and they stay what they are. A driver writes
  // to events of its own, so that there the channel alone is closed.
  for (const int call : {SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(pwrite64), SCMP_SYS(pwritev),
                         SCMP_SYS(pwritev2), SCMP_SYS(vmsplice), SCMP_SYS(tee)})
    f.deny(call, {for_device ? equals(0, protocol::kChannelFd) : at_least(0, 3)});
  for (const int call : {SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(close), SCMP_SYS(shutdown),
                         SCMP_SYS(setsockopt)})
    f.deny(call, {equals(0, protocol::kChannelFd)});
  f.deny({SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg), SCMP_SYS(recvfrom),
          SCMP_SYS(recvmsg), SCMP_SYS(recvmmsg), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
          SCMP_SYS(close_range)});
  for (const uint64_t command : {F_DUPFD, F_DUPFD_CLOEXEC})
    f.deny(SCMP_SYS(fcntl), {equals(1, command)});
  // Signal handlers and timers: the worker's handlers are how a broken rule is noticed.
  f.deny(SCMP_SYS(rt_sigaction), {differs(1, 0)});
  f.deny({SCMP_SYS(setitimer), SCMP_SYS(alarm), SCMP_SYS(timer_create)});
  // Limits and filters, which reach beyond the calling thread.
  f.deny(SCMP_SYS(prlimit64), {differs(2, 0)});
  f.deny({SCMP_SYS(setrlimit), SCMP_SYS(seccomp), SCMP_SYS(landlock_restrict_self)});
  for (const uint64_t option :
       {PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_TSC, PR_SET_TIMERSLACK, PR_SET_MM,
        PR_SET_CHILD_SUBREAPER, PR_SET_PTRACER, PR_SET_SPECULATION_CTRL, PR_SET_SYSCALL_USER_DISPATCH})
    f.deny(SCMP_SYS(prctl), {equals(0, option)});
}

}  // namespace

bool forbid_new_privileges() { return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }

bool forbid_writing_files(bool for_device) {
  const long version = landlock_version();
  if (version < 1) return false;
  LandlockRuleset rules{};
  // Rights by bit: 13 in version 1, then refer, truncate, and device ioctl in version 5.
  rules.handled_files = (uint64_t{1} << 13) - 1;
  if (version >= 2) rules.handled_files |= 1u << 13;
  if (version >= 3) rules.handled_files |= 1u << 14;
  if (version >= 4) rules.handled_network = 3;
  if (version >= 5) rules.handled_files |= 1u << 15;
  if (version >= 6) rules.scoped = 3;
  const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  const auto ruleset = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, size, 0u));
  if (ruleset < 0) return false;
  LandlockPath everything{kReadFile | kReadFolder, ::open("/", O_PATH | O_CLOEXEC)};
  if (for_device) allow_device_files(ruleset, rules.handled_files);
  const bool applied =
      ::syscall(SYS_landlock_add_rule, ruleset, kPathBeneath, &everything, 0u) == 0 &&
      ::syscall(SYS_landlock_restrict_self, ruleset, 0u) == 0;
  ::close(everything.parent_fd);
  ::close(ruleset);
  return applied;
}

bool filter_process(bool for_device) {
  Filter f(for_device ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_TRAP);
  const auto self = static_cast<uint64_t>(::getpid());
  // Children. clone3 hides its flags behind a pointer; without it libc falls back to clone.
  f.trap({SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(execve), SCMP_SYS(execveat)});
  f.add(SCMP_ACT_TRAP, SCMP_SYS(clone), {masked(0, CLONE_THREAD, 0)});
  f.add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), {});
  // Files.
  if (!for_device) {
    deny_write_open(f, SCMP_SYS(open), 1);
    deny_write_open(f, SCMP_SYS(openat), 2);
    f.deny({SCMP_SYS(truncate), SCMP_SYS(ftruncate), SCMP_SYS(fallocate), SCMP_SYS(memfd_create)});
  }
  f.deny({SCMP_SYS(openat2), SCMP_SYS(creat), SCMP_SYS(open_by_handle_at), SCMP_SYS(unlink),
          SCMP_SYS(unlinkat), SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2),
          SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir), SCMP_SYS(link), SCMP_SYS(linkat),
          SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(mknod), SCMP_SYS(mknodat),
          SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(fchown),
          SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(utime), SCMP_SYS(utimes), SCMP_SYS(utimensat),
          SCMP_SYS(futimesat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr),
          SCMP_SYS(removexattr), SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root),
          SCMP_SYS(chroot), SCMP_SYS(memfd_secret), SCMP_SYS(copy_file_range),
          SCMP_SYS(sendfile), SCMP_SYS(splice), SCMP_SYS(shmget), SCMP_SYS(shmat),
          SCMP_SYS(mq_open), SCMP_SYS(msgget), SCMP_SYS(semget), SCMP_SYS(io_uring_setup),
          SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register), SCMP_SYS(io_setup)});
  // Network.
  f.deny({SCMP_SYS(socket), SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind),
          SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4)});
  // Other processes. Signals to itself stay possible: abort needs them.
  f.deny(SCMP_SYS(kill), {differs(0, self)});
  f.deny(SCMP_SYS(tgkill), {differs(0, self)});
  f.trap({SCMP_SYS(tkill), SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo),
          SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal),
          SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
          SCMP_SYS(process_madvise), SCMP_SYS(kcmp), SCMP_SYS(setpgid), SCMP_SYS(setsid)});
  // Scheduling, which other measurements on this machine would feel.
  if (!for_device)
    f.deny({SCMP_SYS(sched_setaffinity), SCMP_SYS(setpriority), SCMP_SYS(sched_setscheduler),
            SCMP_SYS(sched_setparam), SCMP_SYS(sched_setattr), SCMP_SYS(ioprio_set),
            SCMP_SYS(mbind), SCMP_SYS(set_mempolicy), SCMP_SYS(migrate_pages), SCMP_SYS(move_pages)});
  // The system.
  f.deny({SCMP_SYS(personality), SCMP_SYS(userfaultfd), SCMP_SYS(perf_event_open), SCMP_SYS(bpf),
          SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(init_module),
          SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load), SCMP_SYS(reboot),
          SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime),
          SCMP_SYS(clock_adjtime), SCMP_SYS(adjtimex), SCMP_SYS(sethostname), SCMP_SYS(unshare),
          SCMP_SYS(setns), SCMP_SYS(capset), SCMP_SYS(setuid), SCMP_SYS(setgid),
          SCMP_SYS(modify_ldt), SCMP_SYS(iopl), SCMP_SYS(ioperm)});
  return f.load();
}

bool filter_candidate_thread(uint64_t arena, bool for_device) {
  Filter f(for_device ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_TRAP);
  if (!for_device) protect_arena(f, arena);
  protect_host(f, for_device);
  return f.load();
}

bool limit_resources(int64_t memory_bytes, bool for_device) {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0, unused = 0, data_pages = 0;
  statm >> pages >> unused >> unused >> unused >> unused >> data_pages;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto memory = static_cast<uint64_t>(memory_bytes);
  bool ok = statm.good();
  const auto limit = [&](auto resource, rlim_t value) {
    rlimit now{};
    ::getrlimit(resource, &now);
    const rlim_t bounded = std::min(now.rlim_max, value);
    const rlimit wanted{bounded, bounded};
    ok &= ::setrlimit(resource, &wanted) == 0;
  };
  limit(RLIMIT_CORE, 0);
  if (for_device) return ok;
  limit(RLIMIT_AS, pages * page + memory);
  limit(RLIMIT_DATA, data_pages * page + memory);
  limit(RLIMIT_NOFILE, 64);
  limit(RLIMIT_FSIZE, 0);
  return ok;
}

}  // namespace kl
