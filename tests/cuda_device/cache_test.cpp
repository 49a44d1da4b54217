// Kernels that ask the device's cache to keep their lines. A cold call has to be cold for them too;
// settings that would outlive a call are a broken rule.
#include "device_kernel.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace kl::testing {
namespace {

// A chain of loads, each waiting for the one before, over lines far apart: what it takes is how long
// a load takes, so that hits and misses are far apart as well.
std::string chase(const std::string& load) {
  return R"(
__global__ void chase(const float* x, float* y, int64_t n) {
  constexpr int kLoads = 100;
  const int64_t step = n / kLoads;
  int64_t at = 0;
  float sum = 0;
  for (int i = 0; i < kLoads; ++i) {
    float v;
    )" + load + R"(
    sum += v;
    at += step - (v == -12345.0f);  // never, but the next load has to wait for it
  }
  *y = sum;
}
)";
}
const std::string kPlainLoad = "v = __ldcg(x + at);";
// Evicted last, after all lines that do not ask for it.
const std::string kPinningLoad = R"(asm volatile(
        "{\n\t.reg .b64 keep;\n\tcreatepolicy.fractional.L2::evict_last.b64 keep, 1.0;\n\t"
        "ld.global.L2::cache_hint.f32 %0, [%1], keep;\n\t}" : "=f"(v) : "l"(x + at));)";
const std::string kPlainLaunch = "chase<<<1, 1, 0, s>>>(x, y, n);";
// A window over the whole input, which a launch may have without touching its stream.
const std::string kPinningLaunch = R"(cudaLaunchAttribute keep{};
  keep.id = cudaLaunchAttributeAccessPolicyWindow;
  keep.val.accessPolicyWindow = {const_cast<float*>(x), n * sizeof(float), 1.0f, cudaAccessPropertyPersisting,
                                 cudaAccessPropertyStreaming};
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = dim3(1);
  config.stream = s;
  config.attrs = &keep;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, chase, x, y, n);)";

constexpr int64_t kElements = int64_t{2} << 20;  // 8 MiB: stays in the cache of any recent device

struct Times {
  double cold_ns = 0, warm_ns = 0;
};

Times times_of(const KernelText& text) {
  DeviceKernel k = host(text, kElements);
  if (k.worker == nullptr) return {};
  EXPECT_EQ(rule_of(k.worker->keep_pool(k.x, {kDLFloat, 32, 1})), "");
  std::vector<int64_t> cold, warm;
  for (int i = 0; i < 21; ++i)
    for (const bool flush : {true, false}) {
      EXPECT_EQ(rule_of(k.worker->draw(k.x, 100 * i, 1)), "");
      const CallTiming timing = value_of(k.worker->run_timed(k.call, flush));
      EXPECT_EQ(timing.code, 0) << timing.text;
      if (i > 0) (flush ? cold : warm).push_back(timing.worker_ns);
    }
  const auto median = [](std::vector<int64_t>& values) {
    std::nth_element(values.begin(), values.begin() + 10, values.end());
    return static_cast<double>(values[10]);
  };
  return {median(cold), median(warm)};
}

const KernelText kChase{.device = chase(kPlainLoad), .run = kPlainLaunch};
const KernelText kEvictLast{.device = chase(kPinningLoad), .run = kPlainLaunch};
const KernelText kWindow{.device = chase(kPlainLoad), .run = kPinningLaunch};

// Nothing forbids them, so that the flush has to cope.
TEST(pinned_lines, are_open_to_every_kernel) {
  KL_NEEDS_NVCC();
  build_all({kChase.source(), kEvictLast.source(), kWindow.source()});
  for (const KernelText& text : {kChase, kEvictLast, kWindow})
    EXPECT_THAT(violations_of(text.source()), ::testing::IsEmpty()) << text.source();
}

TEST(pinned_lines, do_not_survive_the_flush) {
  KL_NEEDS_DEVICE();
  const Times honest = times_of(kChase);
  fmt::print("100 loads in a chain: cold {:.1f} us, warm {:.1f} us\n", honest.cold_ns / 1e3, honest.warm_ns / 1e3);
  // Or else nothing below could be seen.
  ASSERT_LT(honest.warm_ns, 0.8 * honest.cold_ns);
  const struct {
    const char* name;
    KernelText text;
  } pinning[] = {{"evict_last loads", kEvictLast}, {"a persisting window", kWindow}};
  for (const auto& [name, text] : pinning) {
    const Times pinned = times_of(text);
    fmt::print("{}: cold {:.1f} us, warm {:.1f} us\n", name, pinned.cold_ns / 1e3, pinned.warm_ns / 1e3);
    RecordProperty(fmt::format("cold_over_honest_{}", name), fmt::format("{:.3f}", pinned.cold_ns / honest.cold_ns));
    EXPECT_GT(pinned.cold_ns, 0.85 * honest.cold_ns) << name << " stayed in the cache across the flush";
  }
}

const std::string kAddOne = "add_one<<<blocks, 256, 0, s>>>(x, y, n);";
// A device that refuses the setting cannot be misled by it.
constexpr int kRefused = 9;
std::string unless_refused(const std::string& call) {
  return "if (" + call + " != cudaSuccess) return kl_result{" + std::to_string(kRefused) + ", \"refused\"}; " + kAddOne;
}

std::string rule_of_setting(const std::string& call, bool timed) {
  DeviceKernel k = host({.run = unless_refused(call)});
  if (k.worker == nullptr) return "no worker";
  const auto ran = timed ? k.worker->run_timed(k.call, false) : k.worker->run(k.call);
  if (const auto* timing = std::get_if<CallTiming>(&ran); timing != nullptr && timing->code == kRefused) return "refused";
  return rule_of(ran);
}

const std::string kSetAside = "cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 8 << 20)";
const std::string kStreamWindow = R"([&] {
    cudaStreamAttrValue v{};
    v.accessPolicyWindow = {const_cast<float*>(x), n * sizeof(float), 1.0f, cudaAccessPropertyPersisting,
                            cudaAccessPropertyStreaming};
    return cudaStreamSetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v);
  }())";

TEST(cache_settings, that_outlive_the_call_are_forbidden_symbols) {
  KL_NEEDS_NVCC();
  build_all({KernelText{.run = unless_refused(kSetAside)}.source(), KernelText{.run = unless_refused(kStreamWindow)}.source()});
  EXPECT_THAT(violations_of(KernelText{.run = unless_refused(kSetAside)}.source()),
              ::testing::ElementsAre(::testing::HasSubstr("cudaDeviceSetLimit")));
  EXPECT_THAT(violations_of(KernelText{.run = unless_refused(kStreamWindow)}.source()),
              ::testing::ElementsAre(::testing::HasSubstr("cudaStreamSetAttribute")));
}

// The worker does not rest on that.
TEST(cache_settings, that_outlive_the_call_are_named) {
  KL_NEEDS_DEVICE();
  for (const auto& [setting, timed] : {std::pair{kSetAside, false}, std::pair{kStreamWindow, true}}) {
    const std::string rule = rule_of_setting(setting, timed);
    if (rule == "refused") GTEST_SKIP() << "this device refuses " << setting;
    // Setting lines aside waits for the device, which is found first.
    EXPECT_THAT(rule, ::testing::AnyOf("cache-setting", "synchronises")) << setting << (timed ? ", timed" : "");
  }
}

}  // namespace
}  // namespace kl::testing
