// Timed calls: contents stay right, spans are plausible, and short kernels take as long as CUPTI says.
#include "cupti_durations.hpp"
#include "device_kernel.hpp"

#include <engines/cuda/context.hpp>
#include <engines/cuda/cuda_host.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl::testing {
namespace {

int64_t median(std::vector<int64_t> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size()) / 2, values.end());
  return values[values.size() / 2];
}

TEST(timed_calls, are_right_every_time_and_take_a_plausible_time) {
  KL_NEEDS_DEVICE();
  DeviceKernel k = host({}, int64_t{16} << 20);  // 64 MiB in, 64 MiB out
  const DLDataType f32{kDLFloat, 32, 1};
  ASSERT_EQ(rule_of(k.worker->keep_pool(k.x, f32)), "");
  const float poison = -1;
  std::vector<int64_t> cold, warm;
  for (int i = 0; i < 20; ++i) {
    for (const bool flush : {true, false}) {
      ASSERT_EQ(rule_of(k.worker->draw(k.x, i, 1)), "");
      ASSERT_EQ(rule_of(k.worker->fill(k.y, std::as_bytes(std::span(&poison, 1)))), "");
      const CallTiming timing = value_of(k.worker->run_timed(k.call, flush));
      ASSERT_EQ(timing.code, 0) << timing.text;
      EXPECT_LE(timing.worker_ns, timing.parent_ns);
      if (i > 0) (flush ? cold : warm).push_back(timing.worker_ns);
      ASSERT_EQ(rule_of(k.worker->fetch(k.y, 0, 400)), "");
      for (int j = 0; j < 100; ++j) ASSERT_EQ(k.output()[j], static_cast<float>(i + j) + 1);
    }
  }
  const double bytes = 2.0 * 4 * static_cast<double>(k.n);
  const double cold_rate = bytes / static_cast<double>(median(cold)), warm_rate = bytes / static_cast<double>(median(warm));
  RecordProperty("cold_gb_per_s", fmt::format("{:.0f}", cold_rate));
  RecordProperty("warm_gb_per_s", fmt::format("{:.0f}", warm_rate));
  fmt::print("128 MiB moved: {:.0f} GB/s cold, {:.0f} GB/s warm\n", cold_rate, warm_rate);
  EXPECT_GT(cold_rate, 50);
  EXPECT_LT(cold_rate, 20'000);
}

TEST(timed_calls, find_an_input_that_was_written) {
  KL_NEEDS_DEVICE();
  DeviceKernel k = host({.device = KernelText().device + "\n__global__ void f(float* p) { p[3] = 0; }",
                         .run = "add_one<<<blocks, 256, 0, s>>>(x, y, n); f<<<1, 1, 0, s>>>(const_cast<float*>(x));"});
  ASSERT_EQ(rule_of(k.worker->keep_pool(k.x, {kDLFloat, 32, 1})), "");
  ASSERT_EQ(rule_of(k.worker->draw(k.x, 5, 1.5)), "");
  EXPECT_EQ(rule_of(k.worker->run_timed(k.call, false)), "writes-input");
}

TEST(timed_calls, find_a_write_out_of_bounds) {
  KL_NEEDS_DEVICE();
  DeviceKernel k = host({.device = KernelText().device + "\n__global__ void f(float* p) { *p = 1; }",
                         .run = "add_one<<<blocks, 256, 0, s>>>(x, y, n); f<<<1, 1, 0, s>>>(y + n + 1000);"});
  EXPECT_EQ(rule_of(k.worker->run_timed(k.call, false)), "out-of-bounds");
}

TEST(timed_calls, find_work_that_goes_on_elsewhere) {
  KL_NEEDS_DEVICE();
  DeviceKernel k = host({.device = R"(
__global__ void add_one(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  for (int k = 0; k < 20; ++k) __nanosleep(100000);
  if (i < n) y[i] = x[i] + 1;
})",
                         .run = R"(static cudaStream_t other = nullptr;
  if (other == nullptr) cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  add_one<<<blocks, 256, 0, other>>>(x, y, n);)"});
  std::string rule;
  for (int i = 0; i < 5 && rule.empty(); ++i) rule = rule_of(k.worker->run_timed(k.call, false));
  EXPECT_EQ(rule, "side-stream");
}

// The lab's spans of a spinning kernel, with its own correction, against CUPTI's durations of it.
TEST(timer, agrees_with_cupti_for_kernels_of_2_to_10_microseconds) {
  KL_NEEDS_DEVICE();
  auto opened = cuda::open_host();
  ASSERT_TRUE(opened.ok()) << opened.error().what;
  DeviceHost& device = **opened;
  auto context = cuda::Context::open();
  ASSERT_TRUE(context.ok()) << context.error().what;
  ASSERT_FALSE(device.enter_thread());
  fmt::print("{:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "spin", "CUPTI", "launched", "replayed", "bias", "bias");
  int call = 0;
  for (const uint64_t spin_ns : {1500u, 2500u, 4500u, 9500u}) {
    const auto launch = [&](void* stream) {
      return static_cast<int32_t>((*context)->launch("kl_spin", 1, 1, static_cast<CUstream>(stream), spin_ns));
    };
    const auto spans = [&](bool graphs) {
      std::vector<int64_t> all;
      const int id = call++;
      for (int i = 0; i < 202; ++i) {
        const auto ran = device.run_timed(id, graphs, launch);
        if (const auto* run = std::get_if<DeviceRun>(&ran)) {
          if (i > 1) all.push_back(run->span_ns);
        } else {
          ADD_FAILURE() << std::get<DeviceFault>(ran).proof;
          return std::vector<int64_t>{1};
        }
      }
      return all;
    };
    const int64_t launched = median(spans(false)), replayed = median(spans(true));
    std::string why;
    const auto durations = cupti_durations("kl_spin", [&] { spans(false); }, why);
    if (durations.empty()) GTEST_SKIP() << why;
    const int64_t truth = median(durations);
    fmt::print("{:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", spin_ns, truth, launched, replayed, launched - truth, replayed - truth);
    RecordProperty(fmt::format("bias_ns_launched_{}", spin_ns), static_cast<int>(launched - truth));
    RecordProperty(fmt::format("bias_ns_replayed_{}", spin_ns), static_cast<int>(replayed - truth));
    EXPECT_LT(std::abs(launched - truth), 300) << "spin " << spin_ns;
    EXPECT_LT(std::abs(replayed - truth), 300) << "spin " << spin_ns;
  }
}

}  // namespace
}  // namespace kl::testing
