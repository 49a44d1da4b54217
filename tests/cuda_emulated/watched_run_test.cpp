// The program that runs a kernel under compute-sanitizer, without the sanitizer, on the emulated driver.
#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/json.hpp>
#include <lab/core/process.hpp>

#include <gmock/gmock.h>

namespace kl {
namespace {

using ::testing::HasSubstr;

// One call of adds_one.cpp on three floats; `fault` as there.
Finished watched(int fault, const std::string& drivers) {
  const TemporaryFolder folder = TemporaryFolder::create("kernel-lab-test").value();
  const auto tensor = [](const char* name, size_t offset, size_t given) {
    return Json{{"name", name}, {"code", 2}, {"bits", 32}, {"shape", {3}}, {"offset", offset}, {"given", given}};
  };
  const Json operation{{"index", 0},
                       {"scalars", {static_cast<double>(fault)}},
                       {"inputs", Json::array({tensor("x", 0, 12)})},
                       {"outputs", Json::array({tensor("y", 12, 0)})}};
  const Json cases{{"target", "add_one"},
                   {"services", Json::array()},
                   {"cases", Json::array({Json{{"name", "c"}, {"operations", Json::array({operation})}}})}};
  EXPECT_TRUE(write_file_atomic(folder.path() / "cases.json", dump_line(cases)).ok());
  EXPECT_TRUE(write_file_atomic(folder.path() / "cases.bin", std::string(12, '\0')).ok());
  Command command;
  command.arguments = {(Installation::find().bin / "kernel-lab-sanitizer").string(), "cuda",
                       KL_TEST_KERNELS "/adds_one.so", (folder.path() / "cases.json").string(),
                       (folder.path() / "cases.bin").string()};
  command.environment = {{"LD_LIBRARY_PATH", drivers}};
  command.timeout_seconds = 30;
  return run_process(command).value();
}

TEST(WatchedRun, EndsWellWhenEveryCallDoes) {
  const Finished run = watched(0, KL_TEST_DRIVER);
  EXPECT_EQ(run.exit_code, 0) << run.err;
}

TEST(WatchedRun, SaysWhatAKernelReturned) {
  const Finished run = watched(12, KL_TEST_DRIVER);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("run returned 3: so it is"));
}

TEST(WatchedRun, SaysThatThereIsNoDriver) {
  const Finished run = watched(0, "/nowhere");
  if (run.exit_code == 0) GTEST_SKIP() << "there is a driver here";
  EXPECT_THAT(run.err, HasSubstr("no NVIDIA driver"));
}

}  // namespace
}  // namespace kl
