// What compute-sanitizer sees in kernels whose answers are right: each finding, by the tool it belongs to.
#include "pointwise_kernel.hpp"

#include <lab/verify/sanitize.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace kl::testing {
namespace {

using ::testing::HasSubstr;

// Reads the element behind the end and makes nothing of it.
const PointwiseText kReadsBehind{R"(
__global__ void reads_behind(Call c) {
  const int64_t i = index();
  if (i >= c.n) return;
  const float next = c.h[i + 1];
  c.out[i] = next == 12345.678f ? element(c, i) + 0 * next : element(c, i);
}
)", "reads_behind<<<c.blocks, 256, 0, s>>>(c);"};

// Looks at what the output holds before it writes: the answer of the last call would be kept.
const PointwiseText kReadsOutput{R"(
__global__ void reads_output(Call c) {
  const int64_t i = index();
  if (i >= c.n) return;
  const float right = element(c, i);
  if (c.out[i] != right) c.out[i] = right;
}
)", "reads_output<<<c.blocks, 256, 0, s>>>(c);"};

// Warps hand each other their elements without a barrier between writing and reading. What is handed
// over is not used.
const PointwiseText kRaces{R"(
__global__ void races(Call c) {
  __shared__ float shared[256];
  const int64_t i = index();
  shared[threadIdx.x] = i < c.n ? c.h[i] : 0;
  const float other = shared[255 - threadIdx.x];
  if (i < c.n) c.out[i] = other == 12345.678f ? other : element(c, i);
}
)", "races<<<c.blocks, 256, 0, s>>>(c);"};

// The same with its barrier, through scratch that it wrote, up to the last element.
const PointwiseText kHonest{R"(
__global__ void honest(Call c) {
  __shared__ float shared[256];
  const int64_t i = index();
  shared[threadIdx.x] = i < c.n ? element(c, i) : 0;
  __syncthreads();
  const int64_t mirrored = blockIdx.x * int64_t{256} + 255 - threadIdx.x;
  if (mirrored < c.n) c.scratch[mirrored] = shared[255 - threadIdx.x];
}
__global__ void copies(Call c) {
  if (index() < c.n) c.out[index()] = c.scratch[index()];
}
)", "honest<<<c.blocks, 256, 0, s>>>(c); copies<<<c.blocks, 256, 0, s>>>(c);", "as_input"};

class Sanitized : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (cuda::Toolkit::find().ok()) build_all(std::vector{kReadsBehind, kReadsOutput, kRaces, kHonest});
  }
  static SanitizeReport report_of(const PointwiseText& text) {
    Target target = small_pointwise();
    target.quick = {{{{"N", 3}, {"C", 127}}, "f32"}};
    const SanitizeReport report =
        run_sanitizers(cuda_engine(), target, plan_cases(target, {}, false), kernel_file(text.source()), 7);
    fmt::print("{} {} {}\n", to_string(report.status), report.rule, report.proof);
    return report;
  }
  // The kernel of the one finding, and that its line is known.
  static void expect(const SanitizeReport& report, const std::string& rule, const std::string& kernel) {
    EXPECT_EQ(report.status, Status::rejected) << report.proof;
    EXPECT_EQ(report.rule, rule);
    ASSERT_FALSE(report.findings.empty());
    EXPECT_THAT(report.findings[0].kernel, HasSubstr(kernel));
    EXPECT_THAT(report.findings[0].place, HasSubstr("kernel.cu:"));
  }
};

#define KL_NEEDS_SANITIZER(report)                                                              \
  if (report.status == Status::missing_tool || report.status == Status::missing_runtime) \
  GTEST_SKIP() << report.proof << "; " << report.remedy

TEST_F(Sanitized, kernels_use_only_what_a_kernel_may) {
  KL_NEEDS_NVCC();
  for (const PointwiseText& text : {kReadsBehind, kReadsOutput, kRaces, kHonest})
    EXPECT_THAT(violations_of(text.source(), Builder(cuda_engine())), ::testing::IsEmpty()) << text.run;
}

TEST_F(Sanitized, an_honest_kernel_passes_all_four) {
  KL_NEEDS_DEVICE();
  const SanitizeReport report = report_of(kHonest);
  KL_NEEDS_SANITIZER(report);
  EXPECT_EQ(report.status, Status::ok) << report.rule << ": " << report.proof;
  EXPECT_THAT(report.tools, ::testing::ElementsAre("memcheck", "initcheck", "racecheck", "synccheck"));
  EXPECT_EQ(report.cases, 1);
}

TEST_F(Sanitized, a_read_behind_the_input_is_memchecks) {
  KL_NEEDS_DEVICE();
  const SanitizeReport report = report_of(kReadsBehind);
  KL_NEEDS_SANITIZER(report);
  expect(report, "memcheck", "reads_behind");
  EXPECT_THAT(report.proof, HasSubstr("read of size 4"));
}

TEST_F(Sanitized, a_read_of_what_was_never_written_is_initchecks) {
  KL_NEEDS_DEVICE();
  const SanitizeReport report = report_of(kReadsOutput);
  KL_NEEDS_SANITIZER(report);
  expect(report, "initcheck", "reads_output");
  EXPECT_THAT(report.tools, ::testing::ElementsAre("memcheck"));
}

TEST_F(Sanitized, a_race_in_shared_memory_is_racechecks) {
  KL_NEEDS_DEVICE();
  const SanitizeReport report = report_of(kRaces);
  KL_NEEDS_SANITIZER(report);
  expect(report, "racecheck", "races");
  EXPECT_THAT(report.tools, ::testing::ElementsAre("memcheck", "initcheck"));
}

TEST_F(Sanitized, verify_rejects_by_the_tools_name) {
  KL_NEEDS_DEVICE();
  const Target target = small_pointwise();
  VerifyRequest request;
  request.engine = &cuda_engine();
  request.target = &target;
  request.kernel = request.champion = kernel_file(kReadsBehind.source());
  request.seed = 20261202;
  request.sanitize = true;
  const VerifyRecord record = verify(request);
  ASSERT_TRUE(record.details.contains("sanitize")) << record.reason;
  const auto report = from_json<SanitizeReport>(record.details["sanitize"]).value();
  KL_NEEDS_SANITIZER(report);
  EXPECT_EQ(record.status, Status::rejected) << report.proof;
  EXPECT_EQ(record.rule, "memcheck") << record.reason;
}

}  // namespace
}  // namespace kl::testing
