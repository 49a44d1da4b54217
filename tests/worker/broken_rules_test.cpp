// Each kernel here breaks one rule; each must get its named fault, leave no process behind, and
// spoil nothing for the next worker.
#include "hosted_kernel.hpp"

#include <csignal>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>

namespace kl::testing {
namespace {

struct Breach {
  const char* kernel;
  Status status;
  const char* rule;
  const char* proof = "";  // part of it
  std::vector<double> scalars = {};
};

std::string name_of(const ::testing::TestParamInfo<Breach>& info) {
  return std::string(info.param.kernel) + "_" + std::to_string(info.index);
}

// The fault of loading and running a kernel once.
OrFault<CallTiming> run_once(const Breach& breach, const WorkerLimits& limits) {
  auto k = host(library(breach.kernel), breach.scalars, limits);
  if (auto* fault = std::get_if<Fault>(&k)) return *fault;
  auto& hosted = std::get<0>(k);
  return hosted.worker->run(hosted.call);
}

void expect_nothing_left() {
  int status = 0;
  EXPECT_EQ(::waitpid(-1, &status, WNOHANG), -1) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
}

class BrokenRule : public ::testing::TestWithParam<Breach> {};

TEST_P(BrokenRule, gets_its_named_fault) {
  const Breach& breach = GetParam();
  WorkerLimits limits;
  limits.call_seconds = 20;
  limits.threads = 2;
  limits.memory_bytes = 512 << 20;
  const auto result = run_once(breach, limits);
  const auto* fault = std::get_if<Fault>(&result);
  ASSERT_NE(fault, nullptr) << "no fault";
  EXPECT_EQ(fault->status, breach.status) << describe(*fault);
  EXPECT_EQ(fault->rule, breach.rule) << describe(*fault);
  EXPECT_NE(fault->proof.find(breach.proof), std::string::npos) << describe(*fault);
  expect_nothing_left();

  auto next = value_of(host(library("honest"), {}, limits));
  ASSERT_GE(next.call, 0);
  EXPECT_EQ(value_of(next.worker->run(next.call)).code, KL_OK);
  EXPECT_EQ(next.output()[kCount - 1], static_cast<float>(kCount));
}

constexpr Status kRejected = Status::rejected;
constexpr Status kFailed = Status::execution_failed;

INSTANTIATE_TEST_SUITE_P(
    Crash, BrokenRule,
    ::testing::Values(Breach{"writes_null", kFailed, "crash", "SIGSEGV at address 0x0 during run"},
                      Breach{"divides_by_zero", kFailed, "crash", "SIGFPE"},
                      Breach{"traps", kFailed, "crash", "SIGILL"},
                      Breach{"aborts", kFailed, "crash", "SIGABRT raised by itself during run"},
                      Breach{"crashes_on_load", kFailed, "crash", "SIGSEGV raised by itself during load"},
                      Breach{"raises_signal", kFailed, "crash", "SIGTERM", {SIGTERM}},
                      Breach{"raises_signal", kFailed, "crash", "SIGKILL", {SIGKILL}},
                      Breach{"raises_signal", kFailed, "crash", "SIGBUS", {SIGBUS}},
                      Breach{"overflows_stack", kFailed, "stack-overflow", "SIGSEGV"},
                      Breach{"throws", kFailed, "throws", "a number was odd"},
                      Breach{"throws_in_team", kFailed, "crash", "SIGABRT"},
                      Breach{"exhausts_memory", kFailed, "throws", "bad_alloc"},
                      Breach{"exits", kFailed, "early-exit", "code 0 during run"},
                      Breach{"exits_at_once", kFailed, "early-exit", "code 3 during run"},
                      Breach{"exits_with_handler", kFailed, "early-exit", "code 0 during run"},
                      Breach{"exits_on_load", kFailed, "early-exit", "code 0 during load"},
                      Breach{"prints_a_gigabyte", kFailed, "output-flood", "16777216"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Memory, BrokenRule,
    ::testing::Values(Breach{"writes_after", kRejected, "out-of-bounds", "byte 4000 of output"},
                      Breach{"writes_before", kRejected, "out-of-bounds", "byte -4 of output"},
                      Breach{"writes_far_before", kRejected, "out-of-bounds", "byte -20000 of output"},
                      Breach{"reads_after", kRejected, "out-of-bounds", "byte 4000 of input"},
                      Breach{"writes_input", kRejected, "writes-input", "byte 28 of input"},
                      Breach{"writes_late", kRejected, "late-write", "of output"},
                      Breach{"unlocks_output", kRejected, "unlocks-buffer", "mprotect"},
                      Breach{"unlocks_from_afar", kRejected, "unlocks-buffer", "munmap"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Process, BrokenRule,
    ::testing::Values(Breach{"forks", kRejected, "child-process", "clone"},
                      Breach{"executes", kRejected, "child-process", "execve"},
                      // posix_spawn blocks signals first, which hides the call's number.
                      Breach{"starts_program", kRejected, "forbidden-syscall", "signal blocked"},
                      Breach{"leaves_thread", kRejected, "new-thread", "threads"},
                      Breach{"leaves_thread_on_load", kRejected, "new-thread", "threads"},
                      Breach{"writes_file", kRejected, "writes-file", "openat"},
                      Breach{"leaves_file_open", kRejected, "open-file", "cmdline"},
                      Breach{"maps_file", kRejected, "mapped-file", "/etc/passwd"},
                      Breach{"opens_socket", kRejected, "network", "socket"},
                      Breach{"kills_parent", kRejected, "forbidden-syscall", "kill"},
                      Breach{"catches_crashes", kRejected, "forbidden-syscall", "rt_sigaction"},
                      Breach{"forges_answer", kRejected, "forged-answer", "write(0x3"},
                      Breach{"forges_answer_as_stdout", kRejected, "forged-answer", "dup2"},
                      Breach{"patches_code", kRejected, "patches-code", "mprotect"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Disturbance, BrokenRule,
    ::testing::Values(Breach{"sets_flush_to_zero", kRejected, "floating-point-state", "0x37f00009fc0"},
                      Breach{"sets_flush_to_zero_in_team", kRejected, "floating-point-state"},
                      Breach{"sets_flush_to_zero_on_load", kRejected, "floating-point-state"},
                      Breach{"sets_rounding", kRejected, "floating-point-state"},
                      Breach{"changes_affinity", kRejected, "affinity", "sched_setaffinity"},
                      Breach{"sets_environment", kRejected, "environment"}),
    name_of);

Breach call(long number, const char* rule, std::vector<double> arguments = {0, 0, 0, 0}) {
  arguments.insert(arguments.begin(), static_cast<double>(number));
  return {"system_call", kRejected, rule, "", std::move(arguments)};
}

INSTANTIATE_TEST_SUITE_P(
    SystemCall, BrokenRule,
    ::testing::Values(call(SYS_ptrace, "forbidden-syscall"), call(SYS_process_vm_writev, "forbidden-syscall"),
                      call(SYS_perf_event_open, "forbidden-syscall"), call(SYS_userfaultfd, "forbidden-syscall"),
                      call(SYS_io_uring_setup, "forbidden-syscall"), call(SYS_personality, "forbidden-syscall"),
                      call(SYS_prctl, "forbidden-syscall", {22, 0, 0, 0}), call(SYS_seccomp, "forbidden-syscall"),
                      call(SYS_setitimer, "forbidden-syscall"), call(SYS_close_range, "forbidden-syscall", {3, 9, 0, 0}),
                      call(SYS_setpriority, "scheduling"), call(SYS_memfd_create, "writes-file"),
                      call(SYS_unlink, "writes-file"), call(SYS_renameat2, "writes-file"),
                      call(SYS_openat2, "writes-file"), call(SYS_truncate, "writes-file"),
                      call(SYS_connect, "network"), call(SYS_vfork, "child-process"),
                      call(SYS_close, "forged-answer", {3, 0, 0, 0}), call(SYS_recvmsg, "forged-answer", {3, 0, 0, 0})),
    name_of);

TEST(Worker, kills_a_kernel_that_hangs) {
  WorkerLimits limits;
  limits.call_seconds = 0.5;
  auto k = value_of(host(library("hangs"), {}, limits));
  const int pid = k.worker->process_id();
  const auto begin = std::chrono::steady_clock::now();
  const auto result = k.worker->run(k.call);
  const auto* fault = std::get_if<Fault>(&result);
  ASSERT_NE(fault, nullptr);
  EXPECT_EQ(fault->status, Status::timed_out);
  EXPECT_EQ(fault->rule, "hang");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(::kill(pid, 0), -1) << "the worker is still there";
  expect_nothing_left();
}

TEST(Worker, answers_the_same_fault_after_it_ended) {
  auto k = value_of(host(library("exits_at_once")));
  const auto first = k.worker->run(k.call), second = k.worker->run(k.call);
  ASSERT_NE(std::get_if<Fault>(&second), nullptr);
  EXPECT_EQ(std::get<Fault>(first).proof, std::get<Fault>(second).proof);
}

TEST(Worker, restores_the_floating_point_state_before_the_next_call) {
  auto k = value_of(host(library("sets_flush_to_zero")));
  const auto first = k.worker->run(k.call);
  ASSERT_NE(std::get_if<Fault>(&first), nullptr);
  const ArmId honest = value_of(k.worker->load(library("honest"), "add_one"));
  CallBinding binding;
  binding.inputs = {floats(k.x)};
  binding.outputs = {floats(k.y)};
  const CallId call = value_of(k.worker->prepare(honest, binding));
  k.input()[0] = 1e-40f;  // subnormal: flushed, it would still give 1; the check is the fault
  EXPECT_EQ(value_of(k.worker->run(call)).code, KL_OK);
}

TEST(Worker, sees_scratch_and_saved_overflow_in_canary_and_guard) {
  for (const auto& [past, saved, rule] : {std::tuple{1, 0, "scratch-overflow"}, {100, 0, "scratch-overflow"},
                                          {0, 1, "saved-overflow"}, {0, 100, "saved-overflow"}}) {
    auto w = value_of(Worker::start({}));
    const ArmId arm = value_of(w->load(library("uses_scratch_and_saved"), "add_one"));
    CallBinding binding;
    binding.inputs = {floats(value_of(w->add_buffer(BufferRole::input, kCount * 4)))};
    binding.outputs = {floats(value_of(w->add_buffer(BufferRole::output, kCount * 4)))};
    binding.saved = value_of(w->add_buffer(BufferRole::saved, kCount * 4));
    binding.scratch = value_of(w->add_buffer(BufferRole::scratch, kCount * 4));
    binding.scalars = {static_cast<double>(past), static_cast<double>(saved)};
    const auto result = w->run(value_of(w->prepare(arm, binding)));
    const auto* fault = std::get_if<Fault>(&result);
    ASSERT_NE(fault, nullptr) << rule;
    EXPECT_EQ(fault->rule, rule) << describe(*fault);
    EXPECT_EQ(fault->status, Status::rejected);
  }
}

TEST(Worker, names_what_does_not_load) {
  auto w = value_of(Worker::start({}));
  const auto missing = w->load("/no/such/library.so", "add_one");
  ASSERT_NE(std::get_if<Fault>(&missing), nullptr);
  EXPECT_EQ(std::get<Fault>(missing).status, Status::load_failed);
  const auto other = w->load(library("honest"), "rmsnorm");
  ASSERT_NE(std::get_if<Fault>(&other), nullptr);
  EXPECT_NE(std::get<Fault>(other).proof.find("add_one"), std::string::npos);
  EXPECT_EQ(value_of(w->load(library("honest"), "add_one")), 0) << "the worker lives on";
}

TEST(Worker, refuses_buffers_beyond_its_memory) {
  WorkerLimits limits;
  limits.memory_bytes = 64 << 20;
  auto w = value_of(Worker::start(limits));
  const auto result = w->add_buffer(BufferRole::output, 65 << 20);
  ASSERT_NE(std::get_if<Fault>(&result), nullptr);
  EXPECT_EQ(std::get<Fault>(result).rule, "memory");
}

TEST(Worker, writes_no_file) {
  EXPECT_FALSE(std::filesystem::exists("/tmp/kernel-lab-worker-test-should-not-exist"));
}

}  // namespace
}  // namespace kl::testing
