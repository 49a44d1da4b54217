#include <lab/integration/capture.hpp>
#include <lab/integration/range_trace.hpp>
#include <lab/trace/summary.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kl {
namespace {

using testing::HasSubstr;

constexpr std::string_view kStream =
    R"({"event":"step","index":7,"warmup":false,"ns":900}
{"event":"ranges","step":7,"begin_ns":9007199254740993,"end_ns":9007199254741993,"names":["trainer/data","rmsnorm/forward","matmul/2x3x4"],"ranges":[[0,0,100],[1,100,300],[2,400,550]],"dropped":0}
{"event":"ranges","step":9,"begin_ns":9007199254743000,"end_ns":9007199254744000,"names":["rmsnorm/forward"],"ranges":[[0,0,900],[3,0,1],[0,-5,9],[0,990,20],[0,"x",1],7],"dropped":2}
{"event":"ranges","step":11,"begin_ns":50,"end_ns":40,"names":[],"ranges":[]}
)";

TEST(range_trace, every_range_keeps_its_nanoseconds) {
  const TrainerRun run = read_events(kStream);
  ASSERT_EQ(run.ranges.size(), 3u);
  const trace::TraceModel model = range_trace(run, "a cpu");
  ASSERT_EQ(model.activities.size(), 4u);
  EXPECT_EQ(model.ranges[0].span, (trace::Span{9007199254740993, 9007199254741993}));  // 2^53 + 1: no double holds it
  EXPECT_EQ(model.ranges[2].span, (trace::Span{9007199254741093, 9007199254741393}));
  EXPECT_EQ(model.ranges[2].kind, trace::RangeKind::seam);
  EXPECT_EQ(model.ranges[3].kind, trace::RangeKind::work);
  const trace::Summary summary = trace::summarise(model);
  EXPECT_EQ(summary.steps, 2);
  EXPECT_EQ(summary.window_ns, 2000);
  EXPECT_EQ(summary.devices[0].busy_union_ns, 950 + 900);
  EXPECT_EQ(summary.seams[0].seam, "rmsnorm");
  EXPECT_DOUBLE_EQ(summary.seams[0].share, 0.6);
}

TEST(range_trace, what_does_not_make_sense_is_counted_and_left_out) {
  const trace::TraceModel model = range_trace(read_events(kStream), "a cpu");
  ASSERT_EQ(model.gaps.size(), 3u);
  EXPECT_EQ(model.gaps[0].kind, trace::GapKind::dropped);
  EXPECT_EQ(model.gaps[0].count, 2 + 5);
  EXPECT_EQ(model.gaps[1].kind, trace::GapKind::unreadable);
  EXPECT_EQ(model.gaps[1].count, 1);
}

TEST(capture_overhead, is_seen_through_a_machine_whose_speed_changes) {
  std::vector<double> ns;
  std::vector<size_t> captured;
  for (size_t i = 0; i < 91; ++i) {
    const double speed = 1 + 0.5 * std::sin(static_cast<double>(i) / 10);  // by half, within some steps
    if (i % 3 == 1) captured.push_back(i);
    ns.push_back(1e6 * speed * (i % 3 == 1 ? 1.02 : i % 3 == 2 ? 1.3 : 1.0));  // the step behind one suffers, too
  }
  const auto overhead = capture_overhead(ns, captured, 3);
  EXPECT_NEAR(overhead.estimate, std::log(1.02), 0.006);
  EXPECT_LE(overhead.low, overhead.estimate);
  EXPECT_LT(overhead.high, 0.04);
  EXPECT_TRUE(std::isinf(capture_overhead({1e6, 1e6, 1e6, 1e6}, {1}, 3).high)) << "one step decides nothing";
}

}  // namespace
}  // namespace kl
