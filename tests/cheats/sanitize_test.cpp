// Bugs that give the right answer today and that only a sanitizer sees.
#include <lab/core/files.hpp>
#include <lab/verify/sanitize.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

SanitizeReport sanitized(const std::string& body) {
  auto folder = TemporaryFolder::create("kernel-lab-sanitize-test").value();
  const std::string text = read_file(fs::path(KL_CHEATS) / "pointwise.inc").value() + R"(
namespace {
kl_result run(const kl_plan* plan, const kl_call* call, kl_stream) {
  const View v = view(plan, call);
  honest(v);
)" + body + R"(
  return kl::ok();
}
}  // namespace
KL_EXPORT_POINTWISE(no_bytes, no_bytes);
)";
  const fs::path kernel = folder.path() / "kernel.cpp";
  EXPECT_TRUE(write_file_atomic(kernel, text).ok());
  Target target = read_target(fs::path(KL_TARGETS) / "activation_pointwise").value();
  target.quick = {{{{"N", 3}, {"C", 5}}, "f32"}};
  return run_sanitizers(*find_engine("cpu").value(), target, plan_cases(target, {}, false), kernel,
                        7);
}

#define SKIP_WITHOUT_TOOL(report) \
  if (report.status == Status::missing_tool) GTEST_SKIP() << report.proof

TEST(Sanitize, AnHonestKernelPassesBoth) {
  const SanitizeReport report = sanitized("");
  SKIP_WITHOUT_TOOL(report);
  EXPECT_EQ(report.status, Status::ok) << report.proof;
  EXPECT_EQ(report.cases, 2);  // the listed shape, and many rows of it
}

TEST(Sanitize, AReadPastTheStackIsRejectedByAddressSanitizer) {
  const SanitizeReport report = sanitized(
      "  volatile float lanes[4] = {};\n  volatile int64_t at = v.n;\n  if (lanes[at % 4 + 4] == "
      "12345.0f) v.out[0] = 0;");
  SKIP_WITHOUT_TOOL(report);
  EXPECT_EQ(report.status, Status::rejected);
  EXPECT_EQ(report.rule, "address-sanitizer");
  EXPECT_NE(report.proof.find("overflow"), std::string::npos) << report.proof;
}

TEST(Sanitize, ASignedOverflowIsRejectedAsUndefinedBehaviour) {
  const SanitizeReport report = sanitized(
      "  volatile int32_t big = 2147483647;\n  volatile int32_t sum = big + "
      "static_cast<int32_t>(v.n);\n  (void)sum;");
  SKIP_WITHOUT_TOOL(report);
  EXPECT_EQ(report.status, Status::rejected);
  EXPECT_EQ(report.rule, "undefined-behaviour");
  EXPECT_NE(report.proof.find("overflow"), std::string::npos) << report.proof;
}

}  // namespace
}  // namespace kl
