// How compute-sanitizer is started and judged. A script stands in for it: the real one needs a
// device.
#include <engines/cuda/sanitizers.hpp>

#include <lab/core/files.hpp>

#include <gmock/gmock.h>

#include <cstdlib>

namespace kl::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Tool : public ::testing::Test {
 protected:
  // Writes `log` where it was told to, prints `printed` and ends as `ending` says.
  SanitizerVerdict judged(const std::string& log, const std::string& ending,
                          double seconds = 20) const {
    const fs::path script = folder_.path() / "compute-sanitizer";
    const fs::path content = folder_.path() / "content";
    EXPECT_TRUE(write_file_atomic(content, log).ok());
    EXPECT_TRUE(write_file_atomic(
                    script, "#!/bin/sh\nwhile [ \"$1\" != --log-file ]; do shift; done\n[ -s " +
                                content.string() + " ] && cp " + content.string() + " \"$2\"\n" +
                                ending + "\n")
                    .ok());
    fs::permissions(script, fs::perms::owner_all);
    const Sanitizer sanitizer = sanitizer_of(script, "memcheck");
    Command command = sanitizer.command({"/bin/true"}, folder_.path());
    command.timeout_seconds = seconds;
    const auto run = run_process(command);
    EXPECT_TRUE(run.ok());
    return sanitizer.verdict(*run, folder_.path());
  }

  TemporaryFolder folder_ = TemporaryFolder::create("kernel-lab-test").value();
};

constexpr const char* kClean = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
constexpr const char* kFound = R"(========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at f(float *)+0x40 in kernel.cu:7
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
)";

TEST_F(Tool, is_told_what_to_watch_and_where_to_write) {
  const Command command =
      sanitizer_of("/opt/compute-sanitizer", "initcheck").command({"program", "cases"}, "/scratch");
  EXPECT_THAT(
      command.arguments,
      ElementsAre("/opt/compute-sanitizer", "--tool", "initcheck", "--error-exitcode", "86",
                  "--report-api-errors", "no", "--show-backtrace", "device", "--print-limit", "50",
                  "--log-file", "/scratch/initcheck.log", "program", "cases"));
  EXPECT_THAT(sanitizer_of("s", "memcheck").command({"program"}, "/scratch").arguments,
              ::testing::IsSupersetOf({"--padding", "4096"}));
}

TEST_F(Tool, that_found_nothing_is_ok) { EXPECT_EQ(judged(kClean, "exit 0").status, Status::ok); }

TEST_F(Tool, that_found_something_rejects_with_kind_kernel_and_line) {
  const SanitizerVerdict verdict = judged(kFound, "exit 86");
  EXPECT_EQ(verdict.status, Status::rejected);
  EXPECT_EQ(verdict.proof,
            "Invalid __global__ write of size 4 bytes in f(float *) at kernel.cu:7: by thread "
            "(0,0,0) in block (0,0,0)");
  EXPECT_EQ(verdict.findings.size(), 1u);
}

TEST_F(Tool, whose_finding_ends_the_program_still_rejects) {
  EXPECT_EQ(judged(kFound, "exit 1").status, Status::rejected);
}

TEST_F(Tool, that_counts_errors_in_unknown_words_rejects) {
  const SanitizerVerdict verdict = judged(
      "========= COMPUTE-SANITIZER\n========= A new kind of trouble\n========= ERROR SUMMARY: 2 "
      "errors\n",
      "exit 86");
  EXPECT_EQ(verdict.status, Status::rejected);
  EXPECT_THAT(verdict.proof, HasSubstr("A new kind of trouble"));
}

TEST_F(Tool, that_crashes_is_no_verdict_on_the_kernel) {
  const SanitizerVerdict verdict = judged("", "kill -SEGV $$");
  EXPECT_EQ(verdict.status, Status::execution_failed);
  EXPECT_THAT(verdict.proof, HasSubstr("signal 11"));
  EXPECT_NE(verdict.remedy, "");
}

TEST_F(Tool, that_writes_nothing_is_no_verdict_even_if_it_ends_well) {
  EXPECT_EQ(judged("", "exit 0").status, Status::execution_failed);
}

TEST_F(Tool, under_which_the_program_fails_shows_what_it_said) {
  const SanitizerVerdict verdict = judged(kClean, "echo 'run returned 3: no room' >&2; exit 1");
  EXPECT_EQ(verdict.status, Status::execution_failed);
  EXPECT_THAT(verdict.proof, HasSubstr("no room"));
}

TEST_F(Tool, that_hangs_is_timed_out) {
  EXPECT_EQ(judged("", "sleep 60", 0.2).status, Status::timed_out);
}

TEST_F(Tool, that_the_driver_does_not_let_in_says_so) {
  const SanitizerVerdict verdict = judged(
      "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the "
      "documentation\n",
      "exit 1");
  EXPECT_EQ(verdict.status, Status::missing_runtime);
  EXPECT_THAT(verdict.proof, HasSubstr("cannot watch this device"));
}

TEST(Sanitizers, are_missing_with_their_remedy_or_the_four_tools) {
  const auto found = sanitizers();
  if (!found.ok()) {
    EXPECT_EQ(found.error().status, Status::missing_tool);
    EXPECT_THAT(found.error().remedy, HasSubstr("cuda-sanitizer"));
    return;
  }
  std::vector<std::string> rules;
  for (const Sanitizer& sanitizer : *found) rules.push_back(sanitizer.rule);
  EXPECT_THAT(rules, ElementsAre("memcheck", "initcheck", "racecheck", "synccheck"));
}

TEST(Sanitizers, are_found_on_the_path) {
  const TemporaryFolder folder = TemporaryFolder::create("kernel-lab-test").value();
  const fs::path script = folder.path() / "compute-sanitizer";
  ASSERT_TRUE(write_file_atomic(script, "#!/bin/sh\n").ok());
  fs::permissions(script, fs::perms::owner_all);
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", (folder.path().string() + ":" + before).c_str(), 1);
  const auto found = sanitizers();
  ::setenv("PATH", before.c_str(), 1);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->front().command({}, "/s").arguments.front(), script.string());
}

}  // namespace
}  // namespace kl::cuda
