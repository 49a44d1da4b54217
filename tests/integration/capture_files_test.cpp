// What a capture leaves behind, whatever the trainer does.
#include "fake_setup.hpp"

#include <lab/integration/capture.hpp>
#include <lab/trace/import/import.hpp>
#include <lab/trace/summary.hpp>

#include <gmock/gmock.h>

namespace kl {
namespace {

using testing::HasSubstr;

class CaptureTest : public FakeSetup {
 protected:
  CaptureRequest capture_request() {
    const IntegrationRequest base = request();
    CaptureRequest wanted;
    wanted.engine = base.engine;
    wanted.catalogue = base.catalogue;
    wanted.preset = base.preset;
    wanted.trainer = base.trainer;
    wanted.trainer_arguments = base.trainer_arguments;
    wanted.library_cache = base.library_cache;
    wanted.output = prefix();
    wanted.steps = 30;
    return wanted;
  }
  fs::path prefix() const { return root_.path() / "out" / "t"; }
  // The record, after its metadata was seen to say the same.
  CaptureRecord captured(const CaptureRequest& wanted) {
    const auto record = capture(wanted);
    EXPECT_TRUE(record.ok()) << record.error().what;
    const auto metadata = read_json_file(metadata_file(prefix()));
    EXPECT_TRUE(metadata.ok());
    EXPECT_EQ(*metadata, to_json(*record));
    EXPECT_EQ(fs::exists(trace_file(prefix())), record->status == Status::ok);
    return *record;
  }
};

TEST_F(CaptureTest, the_trace_holds_the_planned_steps_and_the_metadata_says_which) {
  const CaptureRecord record = captured(capture_request());
  ASSERT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_EQ(record.steps, 30);
  EXPECT_EQ(record.window_ns, 30 * 100'000);
  EXPECT_EQ(record.ranges, 120);
  EXPECT_DOUBLE_EQ(record.covered_share, 0.9);
  EXPECT_EQ(record.return_codes, std::vector<int>{0});
  EXPECT_TRUE(std::isfinite(record.overhead.high));
  EXPECT_EQ(record.libraries.at("seam").source_hash, sha256_hex(kBaseline));
  EXPECT_TRUE(record.identity.kernel.empty());
  EXPECT_FALSE(record.identity.seams.empty());
  ASSERT_EQ(record.report_files.size(), 1u);
  EXPECT_EQ(record.report_files[0].sha256, *sha256_file(trace_file(prefix())));
  const auto model = trace::read_trace(trace_file(prefix()));
  ASSERT_TRUE(model.ok()) << model.error().what;
  const trace::Summary summary = trace::summarise(*model);
  EXPECT_EQ(summary.steps, 30);
  EXPECT_EQ(summary.seams[0].seam, "seam");
  EXPECT_DOUBLE_EQ(summary.seams[0].share, 0.6);
  EXPECT_EQ(summary.bottleneck.label, "kernel-dominated");
}

TEST_F(CaptureTest, a_workspaces_kernel_runs_in_its_seam) {
  CaptureRequest wanted = capture_request();
  wanted.target = &target_;
  wanted.candidate = root_.path() / "candidate.cpp";
  wanted.quick = true;
  wanted.steps = 0;
  wanted.bench = {{"status", "improved"}};
  const CaptureRecord record = captured(wanted);
  ASSERT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_EQ(record.seam, "seam");
  EXPECT_EQ(record.steps, 8);
  EXPECT_EQ(record.identity.kernel, sha256_hex(kCandidate));
  EXPECT_EQ(record.libraries.at("seam").source_hash, sha256_hex(kCandidate));
  EXPECT_EQ(record.bench["status"], "improved");
}

TEST_F(CaptureTest, the_time_budget_decides_how_many_steps) {
  CaptureRequest wanted = capture_request();
  baseline()["step_ns"] = 1e8;
  wanted.trainer_arguments = {"--script", script_file().string()};
  wanted.steps = 0;
  wanted.window_seconds = 2;
  const CaptureRecord record = captured(wanted);
  ASSERT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_NEAR(static_cast<double>(record.steps), 20 / 3, 1);
  EXPECT_EQ(record.return_codes.size(), 2u);
}

TEST_F(CaptureTest, a_trainer_that_dies_leaves_no_trace_not_even_an_old_one) {
  ASSERT_EQ(captured(capture_request()).status, Status::ok);
  baseline()["die_at"] = 12;
  const CaptureRecord record = captured(capture_request());
  EXPECT_EQ(record.status, Status::capture_failed);
  EXPECT_EQ(record.return_codes, std::vector<int>{-6});
  EXPECT_THAT(record.failure_reason, HasSubstr("died of signal 6 after 12 steps"));
}

TEST_F(CaptureTest, a_step_without_its_ranges_is_a_failed_capture) {
  baseline()["unrecorded_at"] = 4;
  const CaptureRecord record = captured(capture_request());
  EXPECT_EQ(record.status, Status::capture_failed);
  EXPECT_THAT(record.reason, HasSubstr("29 of 30 planned steps"));
}

TEST_F(CaptureTest, a_trainer_that_writes_no_ranges_is_named) {
  script["ranges"] = "ignored";
  const CaptureRecord record = captured(capture_request());
  EXPECT_EQ(record.status, Status::capture_unavailable);
  EXPECT_THAT(record.reason, HasSubstr("fake_trainer wrote no `ranges` events"));
}

TEST_F(CaptureTest, a_missing_tool_still_leaves_metadata) {
  CaptureRequest wanted = capture_request();
  wanted.tool = "nsys";
  const CaptureRecord record = captured(wanted);
  EXPECT_EQ(record.status, Status::missing_tool);
  EXPECT_FALSE(record.remedy.empty());
}

TEST_F(CaptureTest, a_target_without_a_seam_needs_an_adapter) {
  spec("exact-reorder", "");
  CaptureRequest wanted = capture_request();
  wanted.target = &target_;
  wanted.candidate = root_.path() / "candidate.cpp";
  EXPECT_EQ(captured(wanted).status, Status::needs_integration_adapter);
}

TEST_F(CaptureTest, a_prefix_that_cannot_be_written_is_an_error_before_anything_runs) {
  CaptureRequest wanted = capture_request();
  for (const char* output : {"/proc/nowhere/t", "/dev/null/t", ""}) {
    wanted.output = output;
    EXPECT_FALSE(capture(wanted).ok()) << output;
  }
  EXPECT_FALSE(fs::exists(root_.path() / "counter")) << "the trainer ran";
}

}  // namespace
}  // namespace kl
