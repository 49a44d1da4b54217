// compute-sanitizer's log, in the words of its versions.
#include <engines/cuda/sanitizer_report.hpp>

#include <gtest/gtest.h>

namespace kl::cuda {
namespace {

TEST(sanitizer_report, names_kind_kernel_and_line_of_an_access) {
  const auto report = read_sanitizer_report(R"(========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at shift(const float *, float *, long)+0x1a0 in kernel.cu:31
=========     by thread (14,0,0) in block (0,0,0)
=========     Access to 0x7f32a4a0003c is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f32a4a00000 of size 60 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main in main.cpp:9 [0x1d0]
=========
========= Target application returned an error
========= ERROR SUMMARY: 1 error
)");
  ASSERT_EQ(report.findings.size(), 1u);
  const SanitizerFinding& f = report.findings[0];
  EXPECT_EQ(f.kind, "Invalid __global__ read of size 4 bytes");
  EXPECT_EQ(f.kernel, "shift(const float *, float *, long)");
  EXPECT_EQ(f.place, "kernel.cu:31");
  EXPECT_EQ(f.detail,
            "by thread (14,0,0) in block (0,0,0); Access to 0x7f32a4a0003c is out of bounds; "
            "and is 1 bytes after the nearest allocation at 0x7f32a4a00000 of size 60 bytes");
  EXPECT_EQ(report.errors_counted, 1);
  EXPECT_TRUE(report.summarised);
}

TEST(sanitizer_report, takes_the_kernel_from_the_outermost_device_frame) {
  const auto report = read_sanitizer_report(R"(========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at load(const float *)+0x20 in /tmp/x/kernel.cu:5
=========     by thread (0,0,0) in block (2,0,0)
=========     Address 0x7f10
=========         Device Frame: sum(const float *, float *)+0xb0 in kernel.cu:18
=========
========= ERROR SUMMARY: 1 error
)");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kernel, "sum(const float *, float *)");
  EXPECT_EQ(report.findings[0].place, "kernel.cu:5");
}

TEST(sanitizer_report, knows_the_order_of_older_versions_and_code_without_lines) {
  const auto report = read_sanitizer_report(R"(========= COMPUTE-SANITIZER
========= Invalid __shared__ write of size 4 bytes
=========     at 0x150 in /src/kernel.cu:12:void f<(int)4>(float *)
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Invalid __shared__ write of size 4 bytes
=========     at 0x90 in g(float *)
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Barrier error detected. Divergent thread(s) in block
=========     at h()+0x70
=========     by thread (3,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 3 errors
)");
  ASSERT_EQ(report.findings.size(), 3u);
  EXPECT_EQ(report.findings[0].kernel, "void f<(int)4>(float *)");
  EXPECT_EQ(report.findings[0].place, "kernel.cu:12");
  EXPECT_EQ(report.findings[1].kernel, "g(float *)");
  EXPECT_EQ(report.findings[1].place, "");
  EXPECT_EQ(report.findings[2].kernel, "h()");
  EXPECT_EQ(report.errors_counted, 3);
}

TEST(sanitizer_report, tells_races_from_hazards_that_may_be_meant) {
  const auto report = read_sanitizer_report(R"(========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at turn(float *)+0x110 in kernel.cu:7
=========     and Read access at turn(float *)+0x1f0 in kernel.cu:8 [992 hazards]
=========
========= Warning: Race reported between Read access at lanes(float *)+0x80 in kernel.cu:40
=========     and Write access at lanes(float *)+0x60 in kernel.cu:41 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
)");
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, "Race reported between Write access");
  EXPECT_EQ(report.findings[0].kernel, "turn(float *)");
  EXPECT_EQ(report.findings[0].place, "kernel.cu:7");
  EXPECT_EQ(report.findings[0].detail,
            "and Read access at turn(float *)+0x1f0 in kernel.cu:8 [992 hazards]");
  EXPECT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(report.errors_counted, 1);
}

TEST(sanitizer_report, a_clean_run_has_a_summary_and_nothing_else) {
  for (const char* summary : {"ERROR SUMMARY: 0 errors",
                              "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"}) {
    const auto report = read_sanitizer_report(
        std::string("========= COMPUTE-SANITIZER\n========= ") + summary + "\n");
    EXPECT_TRUE(report.findings.empty());
    EXPECT_TRUE(report.summarised);
    EXPECT_EQ(report.errors_counted, 0);
    EXPECT_EQ(report.trouble, "");
  }
}

TEST(sanitizer_report, an_empty_log_is_no_clean_run) {
  EXPECT_FALSE(read_sanitizer_report("").summarised);
  EXPECT_FALSE(read_sanitizer_report("========= COMPUTE-SANITIZER\n").summarised);
}

TEST(sanitizer_report, says_why_the_tool_could_not_watch) {
  const auto report = read_sanitizer_report(R"(========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
========= Error: couldn't find exit code.
)");
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(report.trouble, "Target application terminated before first instrumented API call");
}

}  // namespace
}  // namespace kl::cuda
