#include <signals.hpp>

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>

namespace kl {
namespace {

StatusPage* page_ = nullptr;

constexpr std::array kFatal = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGXFSZ};

void on_fatal(int signal, siginfo_t* info, void* context) {
  if (page_->claimed.exchange(1) != 0)
    for (;;) ::pause();  // another thread is writing the cause; it ends the process
  page_->code = info->si_code;
  page_->address = reinterpret_cast<uint64_t>(info->si_addr);
  page_->thread = static_cast<int32_t>(::syscall(SYS_gettid));
#if defined(__x86_64__)
  const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  page_->stack_pointer = static_cast<uint64_t>(registers[REG_RSP]);
  page_->arguments[0] = static_cast<uint64_t>(registers[REG_RDI]);
  page_->arguments[1] = static_cast<uint64_t>(registers[REG_RSI]);
  page_->arguments[2] = static_cast<uint64_t>(registers[REG_RDX]);
#elif defined(__aarch64__)
  const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  page_->stack_pointer = machine.sp;
  for (int i = 0; i < 3; ++i) page_->arguments[i] = machine.regs[i];
#endif
  if (signal == SIGSYS) page_->syscall = info->si_syscall;
  page_->signal = signal;
  ::syscall(SYS_exit_group, 128 + signal);
}

}  // namespace

bool install_signal_handlers(StatusPage* page) {
  page_ = page;
  struct sigaction action {};
  action.sa_sigaction = on_fatal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);
  bool ok = true;
  for (const int signal : kFatal) ok &= ::sigaction(signal, &action, nullptr) == 0;
  install_signal_stack();
  return ok;
}

void install_signal_stack() {
  thread_local bool installed = false;
  if (installed) return;
  constexpr size_t kBytes = 64 << 10;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kBytes;
  installed = ::sigaltstack(&stack, nullptr) == 0;
}

}  // namespace kl
