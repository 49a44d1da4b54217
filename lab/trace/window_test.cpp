#include <lab/trace/summary.hpp>
#include <lab/trace/test_model.hpp>
#include <lab/trace/window.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl::trace {
namespace {

using testing::HasSubstr;

// Four steps of 100 us from 1000 us on, with a kernel of 10, 20, 30, 40 us.
ModelBuilder stepped() {
  ModelBuilder b;
  b.device(0, "a");
  for (int i = 0; i < 4; ++i) {
    b.range(RangeKind::step, "step", 1000 + 100 * i, 1100 + 100 * i);
    b.kernel(1000 + 100 * i, 1010 + 110 * i);
  }
  return b;
}

struct Row {
  const char* window;
  int64_t steps, kernel_us;
};

TEST(window, steps_are_numbered_from_one_and_times_choose_those_inside_whole) {
  for (const Row& row : {Row{"2:3", 2, 50}, Row{"4:4", 1, 40}, Row{"3:", 2, 70}, Row{":1", 1, 10}, Row{"2:99", 3, 90}, Row{"100us:300us", 2, 50},
                         Row{"0.05ms:0.35ms", 2, 50}, Row{":0.0001s", 1, 10}, Row{"300us:", 1, 40}}) {
    ModelBuilder b = stepped();
    ASSERT_TRUE(cut_window(b.model, row.window).ok()) << row.window;
    const Summary s = summarise(b.model);
    EXPECT_EQ(s.steps, row.steps) << row.window;
    EXPECT_EQ(s.devices[0].kernel_union_ns, row.kernel_us * 1000) << row.window;
    EXPECT_EQ(s.window_ns, row.steps * 100'000) << row.window;
  }
}

TEST(window, without_steps_a_time_cuts_items_and_calls) {
  ModelBuilder b;
  b.device(0, "a");
  b.kernel(1000, 1040).correlation = 1;
  b.kernel(1050, 1100);
  b.call("cudaLaunchKernel", 990, 1000, 1).call("cudaDeviceSynchronize", 1015, 1095);
  ASSERT_TRUE(cut_window(b.model, "20us:60us").ok());
  const Summary s = summarise(b.model);
  EXPECT_EQ(s.window_ns, 40'000);
  EXPECT_EQ(s.devices[0].kernel_union_ns, 30'000);
  EXPECT_EQ(s.host.launches, 0);
  EXPECT_EQ(s.host.sync_sum_ns, 40'000);
}

TEST(window, what_is_no_window_is_refused_and_says_what_would_be) {
  for (const char* text : {"", "3", ":", "a:b", "8:3", "0:3", "1.5:2", "-1s:2s", "1:2s", "2s:1s", "1s:1s", "1m:2m", "1:2:3", "s:", "99999999999999999999s:"}) {
    ModelBuilder b = stepped();
    const auto cut = cut_window(b.model, text);
    ASSERT_FALSE(cut.ok()) << text;
    EXPECT_EQ(cut.error().status, Status::usage) << text;
    EXPECT_FALSE(cut.error().remedy.empty()) << text;
  }
  ModelBuilder b = stepped();
  EXPECT_THAT(cut_window(b.model, "5:6").error().what, HasSubstr("the trace has 4 steps"));
  EXPECT_THAT(cut_window(b.model, "10us:90us").error().what, HasSubstr("no whole step"));
  EXPECT_THAT(cut_window(b.model, "1s:").error().what, HasSubstr("0.0004 s long"));
  ModelBuilder sums;
  sums.model.totals.push_back({ActivityKind::kernel, sums.model.names.id("k"), 1, 10});
  EXPECT_THAT(cut_window(sums.model, "1:2").error().what, HasSubstr("no moments"));
  ModelBuilder plain;
  plain.kernel(0, 10);
  EXPECT_THAT(cut_window(plain.model, "1:2").error().remedy, HasSubstr("times"));
}

}  // namespace
}  // namespace kl::trace
