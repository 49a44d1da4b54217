// A worker never outlives its parent, however the parent ends.
#include "hosted_kernel.hpp"

#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kl::testing {
namespace {

TEST(Worker, dies_when_its_parent_is_killed) {
  // Orphans come to this process, so that their end can be seen.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto hosted = host(library("hangs"));
    if (!std::holds_alternative<HostedKernel>(hosted)) ::_exit(1);
    auto& k = std::get<0>(hosted);
    const int pid = k.worker->process_id();
    if (::write(ends[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    (void)k.worker->run(k.call);
    ::_exit(1);
  }
  int worker = -1;
  ASSERT_EQ(::read(ends[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ::kill(parent, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  ASSERT_TRUE(WIFSIGNALED(status));
  pid_t reaped = 0;
  for (int i = 0; i < 500 && reaped == 0; ++i) {
    reaped = ::waitpid(worker, &status, WNOHANG);
    if (reaped == 0) ::usleep(10'000);
  }
  EXPECT_EQ(reaped, worker) << "the worker outlived its parent";
  if (reaped == 0) ::kill(worker, SIGKILL);
  ::close(ends[0]);
  ::close(ends[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST(Worker, is_gone_with_its_object) {
  int pid = -1;
  {
    auto k = value_of(host(library("honest")));
    pid = k.worker->process_id();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(Worker, says_what_to_do_when_its_program_is_missing) {
  const std::string home = std::getenv("KERNEL_LAB_HOME");
  ::setenv("KERNEL_LAB_HOME", "/nowhere", 1);
  const auto result = Worker::start({});
  ::setenv("KERNEL_LAB_HOME", home.c_str(), 1);
  ASSERT_NE(std::get_if<Fault>(&result), nullptr);
  EXPECT_EQ(std::get<Fault>(result).status, Status::missing_tool);
  EXPECT_NE(std::get<Fault>(result).proof.find("/nowhere/bin/kernel-lab-worker"), std::string::npos);
}

}  // namespace
}  // namespace kl::testing
