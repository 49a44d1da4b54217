#include <lab/trace/families.hpp>
#include <lab/trace/summary.hpp>
#include <lab/trace/test_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace kl::trace {
namespace {

using testing::HasSubstr;

TEST(summary, overlapping_kernels_and_copies_are_unions_not_sums) {
  ModelBuilder b;
  b.device(0, "card");
  b.kernel(0, 40);
  b.kernel(20, 60, 0, 8);                       // another stream, over the first
  b.item(ActivityKind::copy, 50, 80, 0, 9);     // 20 of it exposed
  b.item(ActivityKind::set, 90, 100, 0, 9);
  const Summary s = summarise(b.model);
  ASSERT_EQ(s.devices.size(), 1u);
  const DeviceSummary& d = s.devices[0];
  EXPECT_EQ(s.window_ns, 100'000);
  EXPECT_EQ(d.kernels, 2);
  EXPECT_EQ(d.kernel_sum_ns, 80'000);
  EXPECT_EQ(d.kernel_union_ns, 60'000);
  EXPECT_EQ(d.copies, 1);
  EXPECT_EQ(d.copy_sum_ns, 30'000);
  EXPECT_EQ(d.exposed_copy_ns, 20'000);
  EXPECT_EQ(d.busy_union_ns, 90'000);
  EXPECT_EQ(d.idle_ns, 10'000);
  EXPECT_EQ(d.span_ns, 100'000);
  EXPECT_EQ(s.bottleneck.label, "insufficient-trace-data");
  EXPECT_THAT(s.bottleneck.reason, HasSubstr("3 device items in the window; 100 are needed"));
}

TEST(summary, each_device_has_its_own_unions_and_the_split_sums_to_all_of_them) {
  ModelBuilder b;
  b.device(0, "a").device(1, "b");
  b.kernel(0, 100, 0);
  b.kernel(50, 80, 1);
  const Summary s = summarise(b.model);
  ASSERT_EQ(s.devices.size(), 2u);
  EXPECT_EQ(s.devices[0].idle_ns, 0);
  EXPECT_EQ(s.devices[1].kernel_union_ns, 30'000);
  EXPECT_EQ(s.devices[1].idle_ns, 70'000);
  EXPECT_EQ(s.devices[1].span_ns, 30'000);
  const BottleneckSplit& split = s.bottleneck.split;
  EXPECT_EQ(split.whole_ns, 200'000);
  EXPECT_EQ(split.kernel_ns + split.idle_unknown_ns, 200'000);
  EXPECT_DOUBLE_EQ(s.covered_share, 0.65);
}

TEST(summary, a_familys_share_of_the_window_is_a_union_on_each_device) {
  ModelBuilder b;
  b.device(0, "a").device(1, "b");
  b.kernel(0, 60, 0, 7, kNone, "softmax_forward");
  b.kernel(30, 70, 0, 8, kNone, "softmax_forward");  // over the first
  b.kernel(50, 80, 1, 7, kNone, "softmax_forward");  // another device: no overlap
  b.kernel(80, 100, 0, 7, kNone, "k");
  const Summary s = summarise(b.model);
  ASSERT_EQ(s.families.at(0).family, "softmax");
  EXPECT_EQ(s.families[0].kernel_sum_ns, 130'000);
  EXPECT_EQ(s.families[0].kernel_union_ns, 100'000);
  EXPECT_DOUBLE_EQ(s.families[0].window_share.value_or(0), 0.5);
  EXPECT_DOUBLE_EQ(s.families.at(1).window_share.value_or(0), 0.1);

  ModelBuilder sums;  // of a tool that keeps no moments
  sums.model.totals.push_back({ActivityKind::kernel, sums.model.names.id("softmax_forward"), 3, 90'000});
  EXPECT_FALSE(summarise(sums.model).families.at(0).window_share);
}

TEST(summary, only_what_lies_in_the_steps_counts) {
  ModelBuilder b;
  b.device(0, "a");
  b.range(RangeKind::step, "step 5", 100, 200).range(RangeKind::step, "step 6", 250, 300);
  b.kernel(50, 120);   // begins before the window
  b.kernel(190, 260);  // over the pause between the steps
  b.kernel(400, 500);  // behind the window
  Summary s = summarise(b.model);
  EXPECT_EQ(s.steps, 2);
  EXPECT_EQ(s.window_ns, 200'000);
  EXPECT_EQ(s.devices[0].kernels, 2);
  EXPECT_EQ(s.devices[0].kernel_union_ns, 90'000);
  b.model.steps_are_the_window = true;
  s = summarise(b.model);
  EXPECT_EQ(s.window_ns, 150'000);
  EXPECT_EQ(s.devices[0].kernel_union_ns, 40'000);
}

TEST(summary, waiting_while_the_device_works_is_counted_apart) {
  ModelBuilder b;
  b.device(0, "a");
  b.kernel(0, 100);
  b.kernel(150, 200);
  b.call("cudaStreamSynchronize_v3020", 10, 120).call("cudaDeviceSynchronize", 60, 110, kNone, kThread + 1);
  b.call("cudaLaunchKernel_v7000", 130, 150);
  const Summary s = summarise(b.model);
  EXPECT_EQ(s.host.launches, 1);
  EXPECT_EQ(s.host.launch_sum_ns, 20'000);
  EXPECT_EQ(s.host.sync_sum_ns, 160'000);
  EXPECT_EQ(s.host.sync_union_ns, 110'000);
  EXPECT_EQ(s.host.sync_while_busy_ns, 90'000);
}

// One idle gap of each kind: the device waits 100 us for the second kernel.
BottleneckSplit gap(const std::vector<std::tuple<std::string_view, int, int>>& calls, bool correlated = true,
                    ActivityKind second = ActivityKind::kernel) {
  ModelBuilder b;
  b.device(0, "a");
  b.kernel(0, 100, 0, 7, 1);
  b.item(second, 200, 300, 0, 7, correlated ? 2 : kNone);
  b.call("cudaLaunchKernel", -10, -5, 1);
  int64_t correlation = 1;
  for (const auto& [name, begin, end] : calls) {
    const CallKind kind = call_kind(name);
    correlation = kind == CallKind::launch || kind == CallKind::copy ? 2 : kNone;
    b.call(name, begin, end, correlation);
  }
  return summarise(b.model).bottleneck.split;
}

TEST(bottleneck, a_gap_goes_to_what_the_launching_thread_did_meanwhile) {
  const auto launch = gap({{"cudaLaunchKernel", 90, 195}});  // the queue was empty before the launch returned
  EXPECT_EQ(launch.idle_launch_ns, 100'000);
  const auto host = gap({{"cudaLaunchKernel", 190, 195}});
  EXPECT_EQ(host.idle_host_ns, 90'000);
  EXPECT_EQ(host.idle_launch_ns, 10'000);
  const auto sync = gap({{"cudaDeviceSynchronize", 20, 180}, {"cudaLaunchKernel", 190, 195}});
  EXPECT_EQ(sync.idle_sync_ns, 80'000);  // only after the device had finished
  EXPECT_EQ(sync.idle_host_ns, 10'000);
  const auto copy = gap({{"cudaMemcpyAsync", 110, 200}}, true, ActivityKind::copy);
  EXPECT_EQ(copy.idle_copy_ns, 90'000);
  EXPECT_EQ(copy.exposed_copy_ns, 100'000);
  EXPECT_EQ(copy.idle_host_ns, 10'000);
  const auto unknown = gap({}, false);
  EXPECT_EQ(unknown.idle_unknown_ns, 100'000);
  for (const auto& s : {launch, host, sync, copy, unknown})
    EXPECT_EQ(s.kernel_ns + s.exposed_copy_ns + s.idle_launch_ns + s.idle_sync_ns + s.idle_copy_ns + s.idle_host_ns + s.idle_unknown_ns,
              s.whole_ns);
}

TEST(bottleneck, a_call_of_another_process_with_the_same_number_explains_nothing) {
  ModelBuilder b;
  b.device(0, "a");
  b.kernel(0, 100);
  b.kernel(200, 300, 0, 7, 2);
  b.call("cudaLaunchKernel", 190, 195, 2, thread_number(2000, 2001));
  EXPECT_EQ(summarise(b.model).bottleneck.split.idle_unknown_ns, 100'000);
}

Bottleneck judged(BottleneckSplit split, int64_t items = 100) {
  split.whole_ns = split.kernel_ns + split.exposed_copy_ns + split.idle_launch_ns + split.idle_sync_ns + split.idle_copy_ns +
                   split.idle_host_ns + split.idle_unknown_ns;
  return judge(split, items, {});
}

TEST(bottleneck, the_largest_part_is_the_label_only_when_it_leads_by_ten_points) {
  EXPECT_EQ(judged({.kernel_ns = 55, .idle_host_ns = 45}).label, "kernel-dominated");
  EXPECT_EQ(judged({.kernel_ns = 54, .idle_host_ns = 46}).label, "mixed");
  EXPECT_EQ(judged({.kernel_ns = 20, .idle_launch_ns = 60, .idle_host_ns = 20}).label, "launch-bound");
  EXPECT_EQ(judged({.kernel_ns = 20, .idle_sync_ns = 60, .idle_host_ns = 20}).label, "sync-bound");
  EXPECT_EQ(judged({.kernel_ns = 30, .exposed_copy_ns = 40, .idle_copy_ns = 30}).label, "copy-bound");
  EXPECT_EQ(judged({.kernel_ns = 30, .idle_host_ns = 70}).label, "host-bound");
  EXPECT_NEAR(judged({.kernel_ns = 30, .idle_host_ns = 70}).margin, 0.4, 1e-12);
  EXPECT_EQ(judged({.kernel_ns = 55, .idle_host_ns = 45}, 99).label, "insufficient-trace-data");
  EXPECT_EQ(judged({.kernel_ns = 30, .idle_unknown_ns = 70}).label, "insufficient-trace-data");
  EXPECT_EQ(judged({}).label, "insufficient-trace-data");
}

TEST(attribution, a_kernel_belongs_to_the_innermost_seam_of_its_launching_thread) {
  ModelBuilder b;
  b.device(0, "a");
  b.range(RangeKind::seam, "fused_mlp/forward", 0, 100).range(RangeKind::seam, "rmsnorm/forward", 20, 40);
  b.range(RangeKind::seam, "softmax/forward", 0, 100, kThread + 1);  // another thread's
  b.call("cudaLaunchKernel", 10, 12, 1).call("cudaLaunchKernel", 30, 32, 2).call("cudaLaunchKernel", 50, 52, 3).call("cudaLaunchKernel", 110, 112, 4);
  for (int64_t i = 1; i <= 4; ++i) b.kernel(1000 + 10 * i, 1005 + 10 * i, 0, 7, i);
  b.model.graph_nodes[77] = "optimizer_update/adamw";
  b.kernel(2000, 2010).graph_node = 77;
  const auto to = attribute(b.model);
  EXPECT_EQ(to[0].seam, "fused_mlp/forward");
  EXPECT_EQ(to[1].seam, "rmsnorm/forward");
  EXPECT_EQ(to[2].seam, "fused_mlp/forward");
  EXPECT_EQ(to[3].seam, "");
  EXPECT_EQ(to[3].rule, Rule::none);
  EXPECT_EQ(to[4].seam, "optimizer_update/adamw");
  EXPECT_EQ(to[4].rule, Rule::graph_node);
  const Summary s = summarise(b.model, true);
  EXPECT_EQ(s.seams[0].seam, "fused_mlp");
  EXPECT_EQ(s.seams[0].calls.at("forward"), 2);
  EXPECT_NEAR(s.unknown_share, 5.0 / 30, 1e-12);
  EXPECT_EQ(s.families[0].family, "fused_mlp");
  ASSERT_EQ(s.kernels.size(), 4u);  // one name, known in four ways
  EXPECT_EQ(s.kernels[0].count + s.kernels[1].count + s.kernels[2].count + s.kernels[3].count, 5);
}

TEST(attribution, an_operators_range_names_the_work_of_the_kernels_launched_in_it) {
  ModelBuilder b;
  b.device(0, "a");
  b.range(RangeKind::user, "iteration 3", 0, 100).range(RangeKind::user, "aten::linear, seq = 4", 10, 60);
  b.range(RangeKind::user, "aten::mm, op_id = 7", 20, 40).range(RangeKind::user, "aten::sum", 20, 40, kThread + 1);
  b.range(RangeKind::seam, "rmsnorm/forward", 70, 90).range(RangeKind::user, "aten::mean", 72, 80);
  b.range(RangeKind::user, "my own words", 21, 39);  // says nothing, hides nothing
  int64_t id = 0;
  for (const int64_t at : {25, 50, 75, 95}) {
    b.call("cudaLaunchKernel", at, at + 1, ++id);
    b.kernel(1000 + at, 1002 + at, 0, 7, id);
  }
  const auto to = attribute(b.model);
  EXPECT_EQ(rule_text(to[0]), "operator:mm");
  EXPECT_EQ(rule_text(to[1]), "operator:linear");
  EXPECT_EQ(to[2].seam, "rmsnorm/forward");  // a seam goes before an operator
  EXPECT_EQ(to[3].rule, Rule::none);
}

TEST(attribution, what_only_prepares_an_operators_work_is_not_that_work) {
  ModelBuilder b;
  b.device(0, "a");
  const auto family = [&](std::string_view op, std::string_view kernel) {
    b.kernel(0, 10, 0, 7, kNone, kernel).op = b.model.names.id(op);
    const Attribution all = attribute(b.model);
    const Attributed& to = all[all.size() - 1];
    return std::string(to.family) + " " + rule_text(to);
  };
  EXPECT_EQ(family("aten::cudnn_convolution", "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>(int)").substr(0, 13), "data_movement");
  EXPECT_EQ(family("aten::convolution_backward", "sm80_xmma_dgrad_f16"), "conv operator:convolution");
  EXPECT_EQ(family("aten::mm", "void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)"), "matmul operator:mm");
  EXPECT_EQ(family("aten::mm", "some_kernel"), "matmul operator:mm");
  EXPECT_EQ(family("aten::embedding", "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"),
            "embedding operator:embedding");
}

TEST(attribution, is_that_of_looking_at_every_range) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    ModelBuilder b;
    b.device(0, "a");
    const int ranges = static_cast<int>(random() % 30), calls = static_cast<int>(random() % 20);
    for (int i = 0; i < ranges; ++i) {  // in any order; no two begin at once
      const auto begin = static_cast<int64_t>(random() % 1000) * 32 + i;
      b.range(random() % 4 == 0 ? RangeKind::user : RangeKind::seam, "seam " + std::to_string(i), begin,
              begin + static_cast<int64_t>(random() % 8000), kThread + static_cast<int64_t>(random() % 2));
    }
    for (int i = 0; i < calls; ++i) {
      const auto begin = static_cast<int64_t>(random() % 34000);
      b.call("cudaLaunchKernel", begin, begin + 1, i, kThread + static_cast<int64_t>(random() % 2));
      b.kernel(begin + 100, begin + 200, 0, 7, i);
    }
    const auto found = attribute(b.model);
    for (size_t i = 0; i < found.size(); ++i) {
      const HostCall& call = b.model.calls[i];
      const Range* latest = nullptr;
      for (const Range& range : b.model.ranges)
        if (range.kind == RangeKind::seam && range.thread == call.thread && range.span.begin <= call.span.begin &&
            call.span.begin < range.span.end && (latest == nullptr || range.span.begin > latest->span.begin))
          latest = &range;
      EXPECT_EQ(found[i].seam, latest == nullptr ? "" : b.model.names[latest->name]) << round << ", " << i;
    }
  }
}

TEST(attribution, ranges_that_overlap_without_nesting_give_the_latest_begun) {
  const std::vector<Span> ranges = {{0, 50}, {10, 20}, {30, 80}};
  const std::vector<int64_t> moments = {5, 15, 25, 40, 60, 90};
  EXPECT_EQ(innermost(ranges, moments), (std::vector<int64_t>{0, 1, 0, 2, 2, kNone}));
}

TEST(host_device, its_ranges_are_the_work_and_the_rest_is_unknown) {
  ModelBuilder b;
  for (int step = 0; step < 2; ++step) {
    b.range(RangeKind::step, "step", 1000 * step, 1000 * step + 500);
    for (int i = 0; i < 60; ++i)
      b.range(i % 2 == 0 ? RangeKind::seam : RangeKind::work, i % 2 == 0 ? "rmsnorm/forward" : "matmul/8x8x8", 1000 * step + 8 * i,
              1000 * step + 8 * i + 8);
  }
  b.model.steps_are_the_window = true;
  make_ranges_the_device(b.model, "cpu");
  const Summary s = summarise(b.model);
  EXPECT_EQ(s.window_ns, 1'000'000);
  EXPECT_EQ(s.devices[0].kernels, 120);
  EXPECT_DOUBLE_EQ(s.covered_share, 0.96);
  EXPECT_EQ(s.bottleneck.split.idle_unknown_ns, 40'000);
  EXPECT_EQ(s.bottleneck.label, "kernel-dominated");
  EXPECT_EQ(s.unknown_share, 0);
  EXPECT_DOUBLE_EQ(s.seams[0].share, 0.48);
  EXPECT_EQ(s.seams[0].rule, "range");
  EXPECT_EQ(s.gaps[0].gap, "outside-ranges");
}

TEST(families, the_table_is_sorted_and_knows_what_a_step_does) {
  for (const auto& [subject, family] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"activation_pointwise", "fused_mlp_act"}, {"ve_lookup_reshape", "embedding"}, {"matmul", "matmul"},
           {"trainer/embedding", "embedding"}, {"optimizer_update", "optimizer"}, {"nothing", "unknown"}})
    EXPECT_EQ(family_of_work(subject), family) << subject;
  EXPECT_EQ(subject_of("rmsnorm/forward"), "rmsnorm");
  EXPECT_EQ(part_of("rmsnorm/forward"), "forward");
  EXPECT_EQ(part_of("bare"), "");
}

}  // namespace
}  // namespace kl::trace
