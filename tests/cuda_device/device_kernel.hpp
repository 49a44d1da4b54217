// A worker on the device with a kernel written here: one input and one output of n floats.
#pragma once

#include <engines/cuda/toolkit.hpp>

#include <lab/build/builder.hpp>
#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/engine/engine.hpp>
#include <lab/worker/worker.hpp>
#include <tests/worker/answers.hpp>

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

namespace kl::testing {

inline const Engine& cuda_engine() { return **find_engine("cuda"); }

#define KL_NEEDS_NVCC() \
  if (const auto kl_toolkit = kl::cuda::Toolkit::find(); !kl_toolkit.ok()) GTEST_SKIP() << kl_toolkit.error().what

// Every test that runs a kernel begins with this.
#define KL_NEEDS_DEVICE()                                                      \
  if (const auto kl_usable = kl::testing::cuda_engine().usable(); !kl_usable.ok()) \
  GTEST_SKIP() << "no device: " << kl_usable.error().what

// What a kernel's `run` does, with x, y, n, blocks and the stream s at hand; `device` is its code.
struct KernelText {
  std::string device = R"(
__global__ void add_one(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
})";
  std::string run = "add_one<<<blocks, 256, 0, s>>>(x, y, n);";

  std::string source() const {
    return R"(#include <kernel_lab/kernel.hpp>
namespace {
)" + device + R"(
kl_result accepts(const kl_problem*) { return kl::ok(); }
size_t none(const kl_problem*) { return 0; }
kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, p->inputs[0].shape[0]);
  return kl::ok();
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream stream) {
  const auto n = kl::plan_as<int64_t>(plan);
  const float* x = kl::data<float>(call->inputs[0]);
  float* y = kl::data<float>(call->outputs[0]);
  const auto s = static_cast<cudaStream_t>(stream);
  const auto blocks = static_cast<unsigned>((n + 255) / 256);
  )" + run + R"(
  return cudaGetLastError() == cudaSuccess ? kl::ok() : kl_result{KL_LAUNCH_FAILED, "the launch failed"};
}
}  // namespace
KL_EXPORT_KERNEL("add_one", accepts, none, none, prepare, run);
)";
  }
};

struct DeviceKernel {
  std::unique_ptr<Worker> worker;
  BufferId x = -1, y = -1;
  CallId call = -1;
  int64_t n = 0;

  float* input() const { return reinterpret_cast<float*>(worker->data(x)); }
  float* output() const { return reinterpret_cast<float*>(worker->data(y)); }
};

// Of every source and library here, as long as the program runs: what is built twice is built once.
inline const fs::path& build_folder() {
  static const TemporaryFolder folder = TemporaryFolder::create("kernel-lab-device-test").value();
  return folder.path();
}

// A folder for each source, where it has the name that candidates and champions have.
inline fs::path kernel_file(const std::string& source) {
  const fs::path folder = build_folder() / sha256_hex(source).substr(0, 12);
  EXPECT_TRUE(make_directories(folder).ok());
  EXPECT_TRUE(write_file_atomic(folder / "kernel.cu", source).ok());
  return folder / "kernel.cu";
}
inline Builder builder() { return Builder(cuda_engine(), build_folder() / "cache"); }

// Several at a time: nvcc is what takes long here. What does not build is told where it is needed.
// Needs nvcc alone.
inline void build_all(const std::vector<std::string>& sources, const Builder& with = builder()) {
  std::vector<std::future<void>> builds;
  for (const std::string& source : sources)
    builds.push_back(std::async(std::launch::async, [&with, file = kernel_file(source)] {
      (void)with.build({file, "", {}});
    }));
}

// What the library does that a kernel may not; needs nvcc, not a device.
inline std::vector<std::string> violations_of(const std::string& source, const Builder& with = builder()) {
  const auto built = with.build({kernel_file(source), "", {}});
  EXPECT_TRUE(built.ok()) << built.error().what;
  return built.ok() ? built->violations : std::vector<std::string>{"does not build"};
}

// Builds, loads and binds. Failures on the way are the test's.
inline DeviceKernel host(const KernelText& text, int64_t n = 100'003) {
  DeviceKernel k;
  k.n = n;
  const auto built = builder().build({kernel_file(text.source()), "", {}});
  EXPECT_TRUE(built.ok()) << built.error().what;
  if (!built.ok()) return k;
  WorkerLimits limits;
  limits.device = "cuda";
  auto started = Worker::start(limits);
  if (const auto* fault = std::get_if<Fault>(&started)) {
    ADD_FAILURE() << describe(*fault);
    return k;
  }
  k.worker = std::get<0>(std::move(started));
  const ArmId arm = value_of(k.worker->load(built->path, "add_one"));
  const auto bytes = static_cast<size_t>(n) * sizeof(float);
  k.x = value_of(k.worker->add_buffer(BufferRole::input, bytes));
  k.y = value_of(k.worker->add_buffer(BufferRole::output, bytes));
  for (int64_t i = 0; i < n; ++i) {
    k.input()[i] = static_cast<float>(i);
    k.output()[i] = -1;
  }
  CallBinding binding;
  binding.inputs = {{k.x, {kDLFloat, 32, 1}, {n}, {}, 0}};
  binding.outputs = {{k.y, {kDLFloat, 32, 1}, {n}, {}, 0}};
  k.call = value_of(k.worker->prepare(arm, binding));
  return k;
}

}  // namespace kl::testing
