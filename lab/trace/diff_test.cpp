#include <lab/trace/diff.hpp>
#include <lab/trace/test_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kl::trace {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Two steps of 100 µs each: matmul 40, softmax 20, a copy of 10 under no kernel, 30 idle with the launch of the step's end.
Summary first(int steps = 2) {
  ModelBuilder b;
  b.device(0, "card");
  for (int i = 0; i < steps; ++i) {
    const int64_t t = 1000 + 100 * i;
    b.range(RangeKind::step, "step", t, t + 100);
    b.kernel(t, t + 40, 0, 7, kNone, "gemm_nn");
    b.kernel(t + 40, t + 60, 0, 7, kNone, "softmax_forward");
    b.item(ActivityKind::copy, t + 60, t + 70);
  }
  return summarise(b.model);
}

// One step of 80 µs: matmul 40, a norm of 10 and no softmax, no copy, 30 idle.
Summary second() {
  ModelBuilder b;
  b.device(0, "card");
  b.range(RangeKind::step, "step", 0, 80);
  b.kernel(0, 40, 0, 7, kNone, "gemm_nn");
  b.kernel(40, 50, 0, 7, kNone, "layer_norm_kernel");
  return summarise(b.model);
}

const WorkChange& named(const std::vector<WorkChange>& list, std::string_view name) {
  for (const auto& one : list)
    if (one.name == name) return one;
  static const WorkChange none{"absent", "", -1, -1, -1, -1, -1, -1, -1, -1, -1};
  return none;
}

TEST(trace_diff, of_two_traces_with_steps_is_per_step) {
  const TraceDiff d = diff_summaries(first(), second());
  EXPECT_EQ(d.per, "step");
  EXPECT_DOUBLE_EQ(d.before_ns, 100'000);
  EXPECT_DOUBLE_EQ(d.after_ns, 80'000);
  EXPECT_DOUBLE_EQ(d.change_ns, -20'000);
  const WorkChange& kernels = named(d.parts, "kernel");
  EXPECT_DOUBLE_EQ(kernels.before_ns, 60'000);
  EXPECT_DOUBLE_EQ(kernels.after_ns, 50'000);
  EXPECT_DOUBLE_EQ(kernels.change_ns, -10'000);
  EXPECT_DOUBLE_EQ(kernels.before_share, 0.6);
  EXPECT_DOUBLE_EQ(kernels.after_share, 0.625);
  EXPECT_DOUBLE_EQ(named(d.parts, "exposed_copy").change_ns, -10'000);
  EXPECT_EQ(named(d.parts, "exposed_copy").held_by, "before");
  EXPECT_DOUBLE_EQ(named(d.parts, "idle_unknown").change_ns, 0);
  const WorkChange& matmul = named(d.families, "matmul");
  EXPECT_EQ(matmul.held_by, "both");
  EXPECT_DOUBLE_EQ(matmul.change_ns, 0);
  EXPECT_DOUBLE_EQ(matmul.before_count, 1);
  EXPECT_DOUBLE_EQ(matmul.change_count, 0);
  EXPECT_DOUBLE_EQ(matmul.change_share, 0.8 - 40.0 / 60);
  EXPECT_EQ(named(d.families, "softmax").held_by, "before");
  EXPECT_DOUBLE_EQ(named(d.families, "softmax").change_ns, -20'000);
  EXPECT_EQ(named(d.families, "norm").held_by, "after");
  EXPECT_DOUBLE_EQ(named(d.families, "norm").change_ns, 10'000);
  EXPECT_EQ(d.families[0].name, "softmax");  // the largest change first
  EXPECT_THAT(d.grew, ElementsAre("norm +10 µs"));
  EXPECT_THAT(d.shrank, ElementsAre("softmax -20 µs", "exposed copies -10 µs"));
  EXPECT_EQ(d.verdict, "a step went from 0.100 ms to 0.080 ms (-20.00 %); grew: norm +10 µs; shrank: softmax -20 µs, exposed copies -10 µs");
  EXPECT_THAT(d.notes, ElementsAre("windows of different length: 0.200 ms and 0.080 ms"));
}

TEST(trace_diff, of_a_trace_with_itself_is_nothing) {
  for (const Summary& s : {first(), second(), Summary{}}) {
    const TraceDiff d = diff_summaries(s, s);
    EXPECT_EQ(d.change_ns, 0);
    for (const auto* list : {&d.parts, &d.families, &d.seams})
      for (const auto& one : *list) {
        EXPECT_EQ(one.change_ns, 0) << one.name;
        EXPECT_EQ(one.change_share, 0) << one.name;
        EXPECT_EQ(one.change_count, 0) << one.name;
        EXPECT_EQ(one.held_by, "both") << one.name;
      }
    EXPECT_TRUE(d.grew.empty() && d.shrank.empty());
    EXPECT_THAT(d.verdict, HasSubstr("no part and no family changed by 0.5 "));
  }
  EXPECT_TRUE(diff_summaries(first(), first()).notes.empty());
}

TEST(trace_diff, the_other_way_round_has_the_other_sign) {
  for (const auto& [a, b] : {std::pair{first(), second()}, {first(3), first()}}) {
    const TraceDiff there = diff_summaries(a, b), back = diff_summaries(b, a);
    EXPECT_EQ(there.change_ns, -back.change_ns);
    for (const auto& [list, other] : {std::pair{&there.parts, &back.parts}, {&there.families, &back.families}}) {
      ASSERT_EQ(list->size(), other->size());
      for (size_t i = 0; i < list->size(); ++i) {
        EXPECT_EQ((*list)[i].name, (*other)[i].name);
        EXPECT_EQ((*list)[i].change_ns, -(*other)[i].change_ns);
        EXPECT_EQ((*list)[i].change_share, -(*other)[i].change_share);
        EXPECT_EQ((*list)[i].change_count, -(*other)[i].change_count);
      }
    }
    EXPECT_EQ(there.grew.size(), back.shrank.size());
    EXPECT_EQ(there.shrank.size(), back.grew.size());
  }
}

TEST(trace_diff, without_steps_on_one_side_it_is_per_window_and_in_shares) {
  ModelBuilder b;
  b.device(0, "another card");
  b.kernel(0, 30, 0, 7, kNone, "gemm_nn");
  b.kernel(90, 100, 0, 7, kNone, "gemm_nn");
  b.model.format = "kineto";
  add_gap(b.model, GapKind::no_host_calls, "none");
  const TraceDiff d = diff_summaries(first(), summarise(b.model));
  EXPECT_EQ(d.per, "window");
  EXPECT_DOUBLE_EQ(d.before_ns, 200'000);
  EXPECT_DOUBLE_EQ(named(d.parts, "kernel").change_share, 0.4 - 0.6);
  EXPECT_THAT(d.grew, ElementsAre("matmul +33.3 points of the kernels' time", "idle, unknown +30.0 points of the window"));
  EXPECT_THAT(d.shrank, ElementsAre("softmax -33.3 points of the kernels' time", "kernels -20.0 points of the window",
                                    "exposed copies -10.0 points of the window"));
  EXPECT_THAT(d.notes, ElementsAre("different formats: kernel-lab and kineto; what one tool records, the other may not",
                                   "different devices: card and another card", "per window, because one has no steps: 2 and 0 steps",
                                   "windows of different length: 0.200 ms and 0.100 ms; compare shares, not times",
                                   "only after has the gap no-host-calls"));
}

TEST(trace_diff, of_sums_alone_compares_families) {
  ModelBuilder b;
  b.model.totals.push_back({ActivityKind::kernel, b.model.names.id("gemm_nn"), 2, 90'000});
  b.model.totals.push_back({ActivityKind::kernel, b.model.names.id("softmax_forward"), 2, 10'000});
  add_gap(b.model, GapKind::no_timeline, "sums");
  const TraceDiff d = diff_summaries(first(), summarise(b.model));
  EXPECT_EQ(d.per, "report");
  EXPECT_TRUE(d.parts.empty());
  EXPECT_DOUBLE_EQ(named(d.families, "matmul").change_share, 0.9 - 80.0 / 120);
  EXPECT_THAT(d.notes, Contains("after has no timeline: sums by family are all that can be compared"));
}

TEST(trace_diff, seams_are_unions_of_the_window) {
  ModelBuilder a, b;
  for (auto* m : {&a, &b}) {
    m->range(RangeKind::step, "step", 0, 100).range(RangeKind::seam, "rmsnorm/forward", 10, m == &a ? 30 : 20);
    make_ranges_the_device(m->model, "cpu");
  }
  const TraceDiff d = diff_summaries(summarise(a.model), summarise(b.model));
  ASSERT_EQ(d.seams.size(), 1u);
  EXPECT_EQ(d.seams[0].name, "rmsnorm");
  EXPECT_DOUBLE_EQ(d.seams[0].change_ns, -10'000);
  EXPECT_DOUBLE_EQ(d.seams[0].change_share, 0.1 - 0.2);
  EXPECT_THAT(d.verdict, HasSubstr("grew: idle, unknown +10 µs; shrank: norm -10 µs"));
}

}  // namespace
}  // namespace kl::trace
