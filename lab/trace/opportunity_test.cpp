#include <lab/trace/summary.hpp>
#include <lab/trace/test_model.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace kl::trace {
namespace {

using testing::HasSubstr;

constexpr std::string_view kAdd = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3>>(int, float)";

int64_t gain(const Summary& s, std::string_view name) {
  for (const Opportunity& o : s.opportunities)
    if (o.name == name) return o.gain_ns;
  return 0;
}

// Kernels of `kernel` us, each `gap` us behind the one before, launched by calls of 4 us that end with the gap.
ModelBuilder chain(int count, int64_t kernel, int64_t gap, std::string_view name = kAdd, int64_t graph_node = kNone) {
  ModelBuilder b;
  b.device(0, "card");
  for (int i = 0; i < count; ++i) {
    const int64_t begin = i * (kernel + gap);
    b.call("cudaLaunchKernel", begin - 4, begin, i);
    b.kernel(begin, begin + kernel, 0, 7, i, name).graph_node = graph_node;
  }
  return b;
}

TEST(opportunity, short_pointwise_kernels_with_gaps_as_long_as_they_could_be_fused) {
  const Summary s = summarise(chain(5, 10, 10).model);
  ASSERT_EQ(s.opportunities.size(), 2u);
  EXPECT_EQ(gain(s, kLaunchFusion), 40'000);
  EXPECT_EQ(gain(s, kWholeStepCapture), 40'000);  // the host is late because it launches, in its calls and between them
  const Opportunity& fusion = s.opportunities[0].name == kLaunchFusion ? s.opportunities[0] : s.opportunities[1];
  EXPECT_EQ(fusion.runs, 1);
  EXPECT_EQ(fusion.kernels, 5);
  EXPECT_EQ(fusion.kernel_ns, 50'000);
  EXPECT_NEAR(fusion.share, 40.0 / 90, 1e-12);
  EXPECT_THAT(fusion.reason, HasSubstr("1 run of 5 short pointwise kernels"));
}

TEST(opportunity, a_gap_shorter_than_a_neighbour_is_no_reason_to_fuse) {
  EXPECT_EQ(gain(summarise(chain(5, 10, 9).model), kLaunchFusion), 0);
  EXPECT_EQ(gain(summarise(chain(5, 10, 9).model), kWholeStepCapture), 4 * 4'000);  // of each gap, what the call took
}

TEST(opportunity, two_in_a_row_are_no_chain_and_a_long_gap_is_no_launch) {
  EXPECT_EQ(gain(summarise(chain(2, 10, 10).model), kLaunchFusion), 0);
  EXPECT_EQ(gain(summarise(chain(3, 10, 100).model), kLaunchFusion), 200'000);
  EXPECT_EQ(gain(summarise(chain(3, 10, 101).model), kLaunchFusion), 0);
}

TEST(opportunity, only_pointwise_work_is_fused) {
  EXPECT_EQ(gain(summarise(chain(5, 10, 10, "softmax_forward").model), kLaunchFusion), 0);
  EXPECT_EQ(gain(summarise(chain(5, 10, 10, "some_kernel").model), kLaunchFusion), 0);
  ModelBuilder b = chain(6, 10, 10);
  b.model.activities[2].name = b.model.names.id("softmax_forward");  // 2 before it, 3 behind
  EXPECT_EQ(gain(summarise(b.model), kLaunchFusion), 20'000);
}

TEST(opportunity, where_another_stream_works_nothing_is_lost) {
  ModelBuilder b = chain(5, 10, 10);
  b.kernel(0, 55, 0, 9, kNone, "some_kernel");
  EXPECT_EQ(gain(summarise(b.model), kLaunchFusion), 15'000);
}

// Streams are numbered anew on each device: stream 7 of the other one works in this one's gaps and is no neighbour.
TEST(opportunity, each_device_has_its_own_runs) {
  ModelBuilder b = chain(5, 10, 10);
  b.device(1, "other card");
  for (int64_t begin = 10; begin < 90; begin += 20) b.kernel(begin, begin + 10, 1, 7, kNone, kAdd);
  const Summary s = summarise(b.model);
  EXPECT_EQ(gain(s, kLaunchFusion), 40'000 + 30'000);
}

TEST(opportunity, a_captured_graph_launches_nothing_more) {
  const Summary s = summarise(chain(5, 10, 10, kAdd, 3).model);
  EXPECT_EQ(gain(s, kWholeStepCapture), 0);
  EXPECT_EQ(gain(s, kLaunchFusion), 40'000);  // the gaps between its kernels are still there
}

TEST(opportunity, waiting_in_a_synchronise_call_is_neither) {
  ModelBuilder b = chain(5, 10, 10);
  b.call("cudaStreamSynchronize", 0, 86);
  const Summary s = summarise(b.model);
  EXPECT_EQ(gain(s, kLaunchFusion), 16'000);
  EXPECT_EQ(gain(s, kWholeStepCapture), 16'000);
}

TEST(opportunity, exposed_copies_are_data_movement_and_the_largest_comes_first) {
  ModelBuilder b = chain(5, 10, 10);
  b.item(ActivityKind::copy, 80, 200, 0, 9);
  const Summary s = summarise(b.model);
  EXPECT_EQ(s.opportunities.at(0).name, kDataMovement);
  EXPECT_EQ(gain(s, kDataMovement), 110'000);
}

TEST(opportunity, where_idle_time_is_unknown_time_there_is_none) {
  ModelBuilder b = chain(5, 10, 10);
  b.model.gaps.push_back({GapKind::outside_ranges, 0, "the rest is unknown"});
  EXPECT_TRUE(summarise(b.model).opportunities.empty());
}

TEST(opportunity, the_order_of_the_records_does_not_matter) {
  ModelBuilder b = chain(9, 10, 10);
  const int64_t expected = gain(summarise(b.model), kLaunchFusion);
  std::reverse(b.model.activities.begin(), b.model.activities.end());
  EXPECT_EQ(gain(summarise(b.model), kLaunchFusion), expected);
}

}  // namespace
}  // namespace kl::trace
