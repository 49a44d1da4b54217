#include <lab/core/machine_load.hpp>

#include <lab/core/process.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kl {
namespace {

constexpr const char* kStat =
    "cpu  9000 0 0 9000 0 0 0 0 0 0\n"
    "cpu0 100 20 30 5000 700 4 6 900 0 0\n"
    "cpu1 200 0 0 5000 0 0 0 0 0 0\n"
    "cpu2 7000 0 0 0 0 0 0 0 0 0\n"
    "intr 12345\n";

TEST(machine_load, busy_is_neither_idle_nor_waiting_nor_stolen_and_counts_own_processors_alone) {
  EXPECT_DOUBLE_EQ(busy_seconds(kStat, {0, 1}, 100).value(), (100 + 20 + 30 + 4 + 6 + 200) / 100.0);
  EXPECT_FALSE(busy_seconds(kStat, {7}, 100).has_value());
  EXPECT_FALSE(busy_seconds("nonsense", {0}, 100).has_value());
}

TEST(machine_load, others_is_what_is_busy_less_our_own) {
  const ProcessorTime before{0, 50, 10}, after{4'000'000'000, 58, 15};
  const auto load = load_between(before, after);
  ASSERT_TRUE(load.has_value());
  EXPECT_DOUBLE_EQ(load->wall_seconds, 4);
  EXPECT_DOUBLE_EQ(load->others_processors, 0.75);
  // Ticks may lag behind: never less than nothing.
  EXPECT_DOUBLE_EQ(load_between(before, ProcessorTime{4'000'000'000, 54, 15})->others_processors, 0);
}

TEST(machine_load, without_readings_or_in_a_moment_nothing_is_said) {
  const ProcessorTime now{0, 50, 10};
  EXPECT_FALSE(load_between(std::nullopt, now).has_value());
  EXPECT_FALSE(load_between(now, std::nullopt).has_value());
  EXPECT_FALSE(load_between(now, ProcessorTime{100'000'000, 51, 10}).has_value());
}

TEST(machine_load, more_than_a_quarter_of_a_processor_is_a_disturbance) {
  EXPECT_EQ(disturbance({10, 0.25}), "");
  EXPECT_EQ(disturbance({10, 1.5}), "other processes used 1.50 processors meanwhile, more than 0.25");
}

TEST(machine_load, the_work_of_a_child_that_has_ended_is_our_own) {
  ASSERT_FALSE(usable_processors().empty());
  const auto before = read_processor_time();
  ASSERT_TRUE(before.has_value());
  Command busy;
  busy.arguments = {"timeout", "0.6", "sh", "-c", "while :; do :; done"};
  ASSERT_TRUE(run_process(busy).ok());
  const auto after = read_processor_time();
  EXPECT_GT(after->own - before->own, 0.05);  // even beside other work
  EXPECT_GT(after->busy - before->busy, 0.05);
}

TEST(machine_load, a_process_that_computes_meanwhile_is_seen) {
  const auto before = read_processor_time();
  const pid_t child = ::fork();
  if (child == 0)
    for (volatile bool more = true; more;) continue;
  ::usleep(700'000);
  const auto load = load_between(before, read_processor_time());  // it has not ended: no work of ours
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(load.has_value());
  EXPECT_NE(disturbance(*load), "") << load->others_processors;
}

}  // namespace
}  // namespace kl
