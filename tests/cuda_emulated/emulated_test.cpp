// A worker's device side, on the emulated driver: what it gives a kernel, and what it finds.
#include <lab/worker/draw.hpp>
#include <lab/worker/worker.hpp>
#include <tests/worker/answers.hpp>

#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace kl {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kCount = 1003;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr DLDataType kF32{kDLFloat, 32, 1};

class Emulated : public ::testing::Test {
 protected:
  // As in kernels/adds_one.cpp.
  enum Wrong { honest, other_stream, legacy_stream, late, writes_after, writes_before, writes_input, waits, nothing,
               throws, scratch, unsteady, error_code, refused_launch, refused_launch_after_one,
               sets_aside, pins_window };

  void SetUp() override {
    ::setenv("LD_LIBRARY_PATH", KL_TEST_DRIVER, 1);
    WorkerLimits limits;
    limits.device = "cuda";
    auto started = Worker::start(limits);
    if (const auto* fault = std::get_if<Fault>(&started)) FAIL() << describe(*fault);
    worker_ = std::get<0>(std::move(started));
  }

  void bind(Wrong wrong) {
    const ArmId arm = value_of(worker_->load(KL_TEST_KERNELS "/adds_one.so", "add_one"));
    x_ = value_of(worker_->add_buffer(BufferRole::input, kBytes));
    y_ = value_of(worker_->add_buffer(BufferRole::output, kBytes));
    const BufferId lent = value_of(worker_->add_buffer(BufferRole::scratch, 256));
    for (int64_t i = 0; i < kCount; ++i) {
      floats(x_)[i] = static_cast<float>(i);
      floats(y_)[i] = -1;
    }
    CallBinding binding;
    binding.inputs = {{x_, kF32, {kCount}, {}, 0}};
    binding.outputs = {{y_, kF32, {kCount}, {}, 0}};
    binding.scalars = {static_cast<double>(wrong)};
    binding.scratch = lent;
    call_ = value_of(worker_->prepare(arm, binding));
  }
  float* floats(BufferId id) const { return reinterpret_cast<float*>(worker_->data(id)); }
  // The rule that a checked run says was broken.
  std::string run(Wrong wrong) {
    bind(wrong);
    return rule_of(worker_->run(call_));
  }

  std::unique_ptr<Worker> worker_;
  BufferId x_ = -1, y_ = -1;
  CallId call_ = -1;
};

TEST_F(Emulated, an_honest_kernel_is_right_and_the_same_as_a_graph) {
  bind(honest);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const CallTiming timing = value_of(worker_->run(call_));
    EXPECT_EQ(timing.code, 0);
    EXPECT_EQ(timing.graph_nodes, 1);
    EXPECT_EQ(timing.replay_differs_bytes, 0);
    for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(floats(y_)[i], static_cast<float>(i) + 1);
  }
  EXPECT_FALSE(worker_->confinement().relaxed.empty());
}

TEST_F(Emulated, an_error_code_is_handed_on) {
  bind(error_code);
  const CallTiming timing = value_of(worker_->run(call_));
  EXPECT_EQ(timing.code, 3);
  EXPECT_EQ(timing.text, "so it is");
}

TEST_F(Emulated, work_on_another_stream_is_found) { EXPECT_THAT(run(other_stream), AnyOf("side-stream", "late-write")); }
TEST_F(Emulated, work_on_the_legacy_stream_is_found) { EXPECT_THAT(run(legacy_stream), AnyOf("side-stream", "late-write")); }
TEST_F(Emulated, work_that_is_not_done_in_time_is_found) { EXPECT_EQ(run(late), "late-write"); }
TEST_F(Emulated, a_write_behind_the_output_is_found) { EXPECT_EQ(run(writes_after), "out-of-bounds"); }
TEST_F(Emulated, a_write_before_the_output_is_found) { EXPECT_EQ(run(writes_before), "out-of-bounds"); }
TEST_F(Emulated, a_written_input_is_found) { EXPECT_EQ(run(writes_input), "writes-input"); }
TEST_F(Emulated, more_scratch_than_was_asked_for_is_found) { EXPECT_EQ(run(scratch), "scratch-overflow"); }
TEST_F(Emulated, waiting_inside_run_is_found) { EXPECT_EQ(run(waits), "synchronises"); }
TEST_F(Emulated, a_run_that_enqueues_nothing_is_found) { EXPECT_EQ(run(nothing), "launch-failed"); }
TEST_F(Emulated, a_launch_that_was_refused_and_not_checked_is_found) { EXPECT_EQ(run(refused_launch), "launch-failed"); }
TEST_F(Emulated, a_broken_capture_of_a_run_that_wrote_is_not_capturable) {
  EXPECT_EQ(run(refused_launch_after_one), "not-capturable");
}
TEST_F(Emulated, a_part_of_the_cache_set_aside_is_found) { EXPECT_EQ(run(sets_aside), "cache-setting"); }
TEST_F(Emulated, a_window_that_pins_the_cache_is_found) { EXPECT_EQ(run(pins_window), "cache-setting"); }
TEST_F(Emulated, a_timed_call_that_pins_the_cache_is_found) {
  bind(pins_window);
  EXPECT_EQ(rule_of(worker_->run_timed(call_, true)), "cache-setting");
}
TEST_F(Emulated, an_exception_is_found) { EXPECT_EQ(run(throws), "throws"); }

TEST_F(Emulated, a_replay_that_differs_is_counted_and_can_be_looked_at) {
  bind(unsteady);
  const CallTiming timing = value_of(worker_->run(call_));
  EXPECT_GT(timing.replay_differs_bytes, 0);
  EXPECT_LE(timing.replay_differs_bytes, 4);
  const float direct = floats(y_)[0];
  ASSERT_EQ(rule_of(worker_->fetch_replay(y_)), "");
  EXPECT_GT(floats(y_)[0], direct);
  EXPECT_EQ(floats(y_)[1], 2);
}

TEST_F(Emulated, contents_are_made_on_the_device_and_shown_when_fetched) {
  bind(honest);
  std::vector<std::byte> pool(worker_->data(x_), worker_->data(x_) + kBytes), expected(kBytes);
  ASSERT_EQ(rule_of(worker_->keep_pool(x_, kF32)), "");
  std::memset(worker_->data(x_), 0, kBytes);
  ASSERT_EQ(rule_of(worker_->draw(x_, 17, -1.25)), "");
  EXPECT_EQ(floats(x_)[0], 0);
  ASSERT_EQ(rule_of(worker_->fetch(x_, 0, kBytes)), "");
  draw_from_pool(kF32, pool, 17, -1.25, expected.data());
  EXPECT_EQ(std::memcmp(worker_->data(x_), expected.data(), kBytes), 0);
  const float poison = -7;
  ASSERT_EQ(rule_of(worker_->fill(y_, std::as_bytes(std::span(&poison, 1)))), "");
  ASSERT_EQ(rule_of(worker_->fetch(y_, kBytes - 4, 4)), "");
  EXPECT_EQ(floats(y_)[kCount - 1], -7);
  EXPECT_EQ(floats(y_)[0], -1) << "not asked for";
}

TEST_F(Emulated, timed_calls_see_what_was_drawn_and_are_replayed) {
  bind(honest);
  ASSERT_EQ(rule_of(worker_->keep_pool(x_, kF32)), "");
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(rule_of(worker_->draw(x_, i, 1)), "");
    const CallTiming timing = value_of(worker_->run_timed(call_, i % 2 == 0));
    EXPECT_EQ(timing.code, 0);
    EXPECT_GT(timing.worker_ns, 0);
    EXPECT_GE(timing.parent_ns, timing.worker_ns);
    ASSERT_EQ(rule_of(worker_->fetch(y_, 0, kBytes)), "");
    for (int64_t j = 0; j < kCount; ++j) ASSERT_EQ(floats(y_)[j], static_cast<float>((j + i) % kCount) + 1);
  }
  // A checked run leaves what was drawn alone.
  EXPECT_EQ(rule_of(worker_->run(call_)), "");
  ASSERT_EQ(rule_of(worker_->fetch(y_, 0, kBytes)), "");
  EXPECT_EQ(floats(y_)[0], 6);
}

TEST_F(Emulated, a_timed_call_that_writes_its_input_is_found) {
  bind(writes_input);
  ASSERT_EQ(rule_of(worker_->keep_pool(x_, kF32)), "");
  ASSERT_EQ(rule_of(worker_->draw(x_, 0, 1)), "");
  EXPECT_EQ(rule_of(worker_->run_timed(call_, false)), "writes-input");
}

TEST_F(Emulated, a_timed_call_that_writes_out_of_bounds_is_found) {
  bind(writes_after);
  EXPECT_EQ(rule_of(worker_->run_timed(call_, true)), "out-of-bounds");
}

TEST_F(Emulated, work_that_goes_on_after_timed_calls_is_found) {
  bind(late);
  std::string rule;
  for (int i = 0; i < 5 && rule.empty(); ++i) rule = rule_of(worker_->run_timed(call_, false));
  EXPECT_EQ(rule, "side-stream");
}

TEST_F(Emulated, memory_that_is_not_there_is_a_named_fault) {
  EXPECT_EQ(rule_of(worker_->add_buffer(BufferRole::scratch, size_t{2} << 30)), "out-of-memory");
}

TEST_F(Emulated, buffers_start_again_after_drop_buffers) {
  bind(honest);
  EXPECT_EQ(rule_of(worker_->run(call_)), "");
  ASSERT_EQ(rule_of(worker_->drop_buffers()), "");
  bind(honest);
  EXPECT_EQ(rule_of(worker_->run(call_)), "");
  EXPECT_EQ(floats(y_)[5], 6);
}

TEST(NoDriver, is_told_with_its_remedy) {
  ::unsetenv("LD_LIBRARY_PATH");
  WorkerLimits limits;
  limits.device = "cuda";
  const auto started = Worker::start(limits);
  const auto* fault = std::get_if<Fault>(&started);
  if (fault == nullptr) GTEST_SKIP() << "there is a driver here";
  EXPECT_EQ(fault->status, Status::missing_runtime);
  EXPECT_EQ(fault->rule, "device");
  EXPECT_THAT(fault->proof, HasSubstr("install the NVIDIA driver"));
}

TEST(UnknownDevice, is_told_with_near_matches) {
  WorkerLimits limits;
  limits.device = "cudda";
  const auto started = Worker::start(limits);
  ASSERT_NE(std::get_if<Fault>(&started), nullptr);
  EXPECT_THAT(std::get<Fault>(started).proof, HasSubstr("cuda"));
}

}  // namespace
}  // namespace kl
