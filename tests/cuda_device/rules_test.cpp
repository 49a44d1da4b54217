// Kernels that break one rule each on the device, honest twins, and what comes after a lost context.
#include "device_kernel.hpp"

#include <gmock/gmock.h>

namespace kl::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(honest_kernel, is_right_capturable_and_repeatable) {
  KL_NEEDS_DEVICE();
  DeviceKernel k = host({});
  for (int repeat = 0; repeat < 3; ++repeat) {
    const CallTiming timing = value_of(k.worker->run(k.call));
    EXPECT_EQ(timing.code, 0) << timing.text;
    EXPECT_EQ(timing.graph_nodes, 1);
    EXPECT_EQ(timing.replay_differs_bytes, 0);
    EXPECT_GT(timing.worker_ns, 0);
    for (int64_t i = 0; i < k.n; ++i) ASSERT_EQ(k.output()[i], static_cast<float>(i) + 1) << i;
    for (int64_t i = 0; i < k.n; ++i) k.output()[i] = -1;
  }
  EXPECT_EQ(rule_of(k.worker->fetch_replay(k.y)), "");
  EXPECT_EQ(k.output()[k.n - 1], static_cast<float>(k.n));
  EXPECT_EQ(k.worker->printed(), "");
  ::testing::Test::RecordProperty("landlock", k.worker->confinement().landlock);
  ::testing::Test::RecordProperty("seccomp", k.worker->confinement().seccomp);
}

TEST(honest_kernel, may_fork_and_join_streams_only_through_its_own) {
  KL_NEEDS_DEVICE();
  KernelText text;
  text.run = "cudaMemsetAsync(y, 0, n * sizeof(float), s); add_one<<<blocks, 256, 0, s>>>(x, y, n);";
  DeviceKernel k = host(text);
  const CallTiming timing = value_of(k.worker->run(k.call));
  EXPECT_EQ(timing.graph_nodes, 2);
  EXPECT_EQ(k.output()[7], 8);
}

TEST(failing_launch, that_is_checked_is_the_kernels_own_error) {
  KL_NEEDS_DEVICE();
  KernelText text;
  text.run = "add_one<<<blocks, 4096, 0, s>>>(x, y, n);";
  DeviceKernel k = host(text);
  EXPECT_EQ(value_of(k.worker->run(k.call)).code, 3);
}

struct Broken {
  const char* name;
  std::vector<std::string> rules;  // any of these
  KernelText text;
};
void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

const std::string kSlow = R"(
__global__ void add_one(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  for (int k = 0; k < 200; ++k) __nanosleep(100000);
  if (i < n) y[i] = x[i] + 1;
})";
const std::string kOther = R"(static cudaStream_t other = nullptr;
  if (other == nullptr) cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  add_one<<<blocks, 256, 0, other>>>(x, y, n);)";

const Broken kBroken[] = {
    {"works_on_another_stream", {"side-stream", "late-write"}, {.run = kOther}},
    {"works_on_the_legacy_stream", {"side-stream", "late-write"}, {.run = "add_one<<<blocks, 256>>>(x, y, n);"}},
    {"is_not_done_when_its_stream_is", {"late-write", "side-stream"}, {.device = kSlow, .run = kOther}},
    {"leaves_half_to_another_stream", {"side-stream", "late-write"},
     {.run = R"(static cudaStream_t other = nullptr;
  if (other == nullptr) cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  add_one<<<blocks, 256, 0, other>>>(x, y, n / 2);
  add_one<<<blocks, 256, 0, s>>>(x + n / 2, y + n / 2, n - n / 2);)"}},
    {"traps", {"kernel-fault"}, {.device = "__global__ void f() { __trap(); }", .run = "f<<<1, 1, 0, s>>>();"}},
    {"writes_nowhere", {"kernel-fault"},
     {.device = "__global__ void f(float* p) { *p = 1; }", .run = "f<<<1, 1, 0, s>>>(reinterpret_cast<float*>(8));"}},
    {"writes_after_its_output", {"out-of-bounds"},
     {.device = KernelText().device + "\n__global__ void f(float* p) { *p = 1; }",
      .run = "add_one<<<blocks, 256, 0, s>>>(x, y, n); f<<<1, 1, 0, s>>>(y + n);"}},
    {"writes_before_its_output", {"out-of-bounds"},
     {.device = KernelText().device + "\n__global__ void f(float* p) { *p = 1; }",
      .run = "add_one<<<blocks, 256, 0, s>>>(x, y, n); f<<<1, 1, 0, s>>>(y - 1);"}},
    {"writes_its_input", {"writes-input"},
     {.device = KernelText().device + "\n__global__ void f(float* p) { p[3] = 0; }",
      .run = "add_one<<<blocks, 256, 0, s>>>(x, y, n); f<<<1, 1, 0, s>>>(const_cast<float*>(x));"}},
    {"waits_for_the_device", {"synchronises"},
     {.run = "add_one<<<blocks, 256, 0, s>>>(x, y, n); cudaStreamSynchronize(s);"}},
    {"allocates", {"not-capturable", "synchronises"},
     {.run = "float* p = nullptr; cudaMalloc(&p, 1 << 20); add_one<<<blocks, 256, 0, s>>>(x, y, n); cudaFree(p);"}},
    {"does_not_look_at_a_failed_launch", {"launch-failed"},
     {.run = "add_one<<<blocks, 4096, 0, s>>>(x, y, n); (void)cudaGetLastError();"}},
    {"throws", {"throws"}, {.run = "add_one<<<blocks, 256, 0, s>>>(x, y, n); throw 1;"}},
};

class BrokenRule : public ::testing::TestWithParam<Broken> {
 protected:
  static void SetUpTestSuite() {
    if (!cuda_engine().usable().ok()) return;
    std::vector<std::string> sources;
    for (const Broken& broken : kBroken) sources.push_back(broken.text.source());
    build_all(sources);
  }
};

TEST_P(BrokenRule, is_named) {
  KL_NEEDS_DEVICE();
  DeviceKernel k = host(GetParam().text);
  const auto ran = k.worker->run(k.call);
  const auto* fault = std::get_if<Fault>(&ran);
  ASSERT_NE(fault, nullptr) << "the kernel passed";
  EXPECT_THAT(GetParam().rules, ::testing::Contains(fault->rule)) << describe(*fault) << "\n" << k.worker->printed();
  // The next case starts a worker of its own, whatever became of this one.
  DeviceKernel next = host({});
  EXPECT_EQ(rule_of(next.worker->run(next.call)), "");
}
INSTANTIATE_TEST_SUITE_P(Device, BrokenRule, ::testing::ValuesIn(kBroken),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(kernel_fault, tells_the_address_error_and_ends_the_worker_alone) {
  KL_NEEDS_DEVICE();
  DeviceKernel k = host({.device = "__global__ void f(float* p) { *p = 1; }",
                         .run = "f<<<1, 1, 0, s>>>(reinterpret_cast<float*>(8));"});
  const auto ran = k.worker->run(k.call);
  ASSERT_NE(std::get_if<Fault>(&ran), nullptr);
  EXPECT_THAT(std::get<Fault>(ran).proof, AnyOf(HasSubstr("ADDRESS"), HasSubstr("LAUNCH_FAILED")));
  EXPECT_EQ(rule_of(k.worker->run(k.call)), "kernel-fault");  // the same answer ever after
}

TEST(memory, that_the_device_does_not_have_is_a_named_fault) {
  KL_NEEDS_DEVICE();
  WorkerLimits limits;
  limits.device = "cuda";
  limits.memory_bytes = int64_t{1} << 45;
  auto started = Worker::start(limits);
  auto worker = value_of(std::move(started));
  ASSERT_NE(worker, nullptr);
  // Address space of the host only: nothing is touched before the device says no.
  const auto got = worker->add_buffer(BufferRole::scratch, size_t{200} << 30);
  const std::string rule = rule_of(got);
  if (rule.empty()) GTEST_SKIP() << "this device has more than 200 GiB free";
  EXPECT_EQ(rule, "out-of-memory");
}

}  // namespace
}  // namespace kl::testing
