// The engine as the lab sees it: compiling needs the toolkit alone; everything else answers.
#include <engines/cuda/driver.hpp>
#include <engines/cuda/toolkit.hpp>

#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/engine/engine.hpp>

#include <gmock/gmock.h>

#include <cstdlib>

namespace kl {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kKernel = R"(#include <kernel_lab/kernel.hpp>
namespace {
__global__ void add_one(const float* x, float* y, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
}
kl_result accepts(const kl_problem*) { return kl::ok(); }
size_t none(const kl_problem*) { return 0; }
kl_result prepare(const kl_problem* p, const kl_services*, kl_plan* plan) {
  kl::store(plan, p->inputs[0].shape[0]);
  return kl::ok();
}
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream stream) {
  const auto n = kl::plan_as<int64_t>(plan);
  add_one<<<static_cast<unsigned>((n + 255) / 256), 256, 0, static_cast<cudaStream_t>(stream)>>>(
      kl::data<float>(call->inputs[0]), kl::data<float>(call->outputs[0]), n);
  return cudaGetLastError() == cudaSuccess ? kl::ok() : kl_result{KL_LAUNCH_FAILED, "add_one"};
}
}  // namespace
KL_EXPORT_KERNEL("add_one", accepts, none, none, prepare, run);
)";

class CudaEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::Toolkit::find().ok()) GTEST_SKIP() << cuda::Toolkit::find().error().what;
    ::setenv("KERNEL_LAB_CUDA_ARCH", "sm_90", 1);
  }
  void TearDown() override { ::unsetenv("KERNEL_LAB_CUDA_ARCH"); }

  Result<CompileReport> compile(const std::string& source) const {
    const fs::path file = folder_.path() / "kernel.cu";
    EXPECT_TRUE(write_file_atomic(file, source).ok());
    CompileRequest request{file, folder_.path() / "kernel.so", {Installation::find().include}, "", "targets/add_one/kernel.cu",
                           folder_.path() / "bare.so"};
    return engine_.compile(request);
  }

  const Engine& engine_ = **find_engine("cuda");
  TemporaryFolder folder_ = TemporaryFolder::create("kernel-lab-test").value();
};

TEST_F(CudaEngine, compiles_a_kernel_and_reports_its_resources) {
  const auto report = compile(kKernel);
  ASSERT_TRUE(report.ok()) << report.error().what;
  EXPECT_TRUE(fs::exists(folder_.path() / "kernel.so"));
  EXPECT_TRUE(fs::exists(folder_.path() / "bare.so"));
  EXPECT_THAT(report->compiler, HasSubstr("nvcc"));
  EXPECT_THAT(report->flags, Contains("-arch=sm_90"));
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_THAT(report->notes[0], ::testing::MatchesRegex("add_one: [0-9]+ registers, no spills"));
}

TEST_F(CudaEngine, says_where_a_kernel_does_not_compile) {
  const auto report = compile("int x = nothing;\n");
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().status, Status::build_failed);
  EXPECT_THAT(report.error().what, HasSubstr("targets/add_one/kernel.cu(1): error: identifier \"nothing\" is undefined"));
  EXPECT_THAT(report.error().what, ::testing::Not(HasSubstr("ptxas info")));
}

TEST_F(CudaEngine, refuses_a_kernel_that_reads_another_file) {
  ASSERT_TRUE(write_file_atomic("/tmp/kernel-lab-other.inc", "// other\n").ok());
  const auto report = compile("#include \"/tmp/kernel-lab-other.inc\"\n" + std::string(kKernel));
  fs::remove("/tmp/kernel-lab-other.inc");
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().what, HasSubstr("kernel-lab-other.inc while it is compiled"));
}

TEST_F(CudaEngine, builds_for_the_architecture_that_is_named) {
  EXPECT_THAT(engine_.kernel_files(), ElementsAre("kernel.sm90.cu", "kernel.cu"));
  EXPECT_THAT(*engine_.build_key({}), HasSubstr("-arch=sm_90"));
  ::setenv("KERNEL_LAB_CUDA_ARCH", "10.0", 1);
  EXPECT_THAT(engine_.kernel_files(), ElementsAre("kernel.sm100.cu", "kernel.cu"));
  EXPECT_THAT(*engine_.build_key({}), HasSubstr("-arch=sm_100"));
}

TEST_F(CudaEngine, without_a_driver_everything_that_needs_one_says_so) {
  if (cuda::Driver::get().ok()) GTEST_SKIP() << "there is a driver here";
  for (const Error& error : {engine_.usable().error(), engine_.device().error(), engine_.open_device_host().error(),
                             engine_.ceilings({}).error()}) {
    EXPECT_EQ(error.status, Status::missing_runtime);
    EXPECT_THAT(error.what, HasSubstr("no NVIDIA driver"));
    EXPECT_FALSE(error.remedy.empty());
  }
  EXPECT_EQ(engine_.readings(), std::nullopt);
  for (const DoctorLine& line : engine_.doctor())
    EXPECT_TRUE(line.status == Status::ok || !line.remedy.empty()) << line.name;
}

}  // namespace
}  // namespace kl
