// The reference trainer on its smallest preset: legs far too short to judge speed, long enough to
// see every part of an A/B at work on real losses, gradients and calls.
#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/integration/integration_ab.hpp>

#include <gtest/gtest.h>

namespace kl {
namespace {

class RealTrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    catalogue_ = Catalogue::search({Installation::find().targets});
    auto target = catalogue_.find("rmsnorm");
    ASSERT_TRUE(target.ok()) << target.error().what;
    target_ = *target;
  }

  std::string champion() { return *read_file(*target_.champion(**find_engine("cpu"))); }

  // The champion, its first output of forward and backward multiplied by `factor` afterwards.
  std::string scaled_champion(const std::string& factor) {
    std::string source = champion();
    const size_t at = source.find("KL_EXPORT_KERNEL(");
    const size_t end = source.find("run);", at);
    EXPECT_NE(end, std::string::npos);
    source.replace(end, 5, "scaled_run);");
    source.insert(at, R"(
static kl_result scaled_run(const kl_plan* plan, const kl_call* call, kl_stream stream) {
  const kl_result result = run(plan, call, stream);
  const DLTensor& y = call->outputs[0];
  float* values = kl::data<float>(y);
  for (int64_t i = 0; i < y.shape[0] * y.shape[1]; ++i) values[i] *= )" + factor + R"(;
  return result;
}
)");
    return source;
  }

  IntegrationRecord compare(const std::string& candidate) {
    const fs::path file = root_.path() / "kernel.cpp";
    EXPECT_TRUE(write_file_atomic(file, candidate).ok());
    IntegrationRequest request;
    request.engine = *find_engine("cpu");
    request.catalogue = &catalogue_;
    request.target = &target_;
    request.candidate = file;
    request.preset = "smoke";
    request.steps = 6;
    request.warmup_steps = 2;
    request.max_pairs = 4;
    request.s_aa = 0.02;
    request.skip_eval = true;
    request.no_checkpoint = true;
    request.library_cache = root_.path() / "libraries";
    request.divergence_cache = root_.path() / "divergence";
    return integration_ab(request);
  }

  TemporaryFolder root_ = *TemporaryFolder::create("kl-real-trainer");
  Catalogue catalogue_;
  Target target_;
};

TEST_F(RealTrainerTest, the_champion_against_itself_passes_every_gate_bit_for_bit) {
  const auto record = compare("// the same kernel\n" + champion());
  ASSERT_EQ(record.pairs.size(), 4u) << record.explanation;
  EXPECT_NE(record.status, Status::error) << record.explanation;
  EXPECT_TRUE(record.gates.calls.passed) << record.gates.calls.text;
  EXPECT_TRUE(record.gates.l0.passed) << record.gates.l0.text;
  EXPECT_TRUE(record.gates.l1.passed) << record.gates.l1.text;
  EXPECT_TRUE(record.gates.l2.passed) << record.gates.l2.text;
  EXPECT_EQ(record.calls_seen_per_step, record.calls_expected_per_step);
  EXPECT_GT(record.calls_seen_per_step.at("backward"), 0);
  EXPECT_EQ(record.loss.rms, 0);  // the same seed and the same arithmetic: the same losses
  for (const auto& point : record.replays) {
    EXPECT_EQ(point.loss_candidate, point.loss_baseline);
    EXPECT_NEAR(point.cosine, 1, 1e-12);
  }
  // A unit in the last place moves the curve, or the divergence gate would measure nothing.
  ASSERT_EQ(record.perturbed.replicates.size(), 3u);
  for (const double d : record.perturbed.replicates) EXPECT_GT(d, 0);
  double share = 0;
  for (const auto& [seam, part] : record.seam_share) share += part;
  EXPECT_GT(record.seam_share.at("rmsnorm"), 0);
  EXPECT_LT(share, 1);
  EXPECT_GT(record.baseline_peak_bytes, 0);
  EXPECT_GT(record.baseline_tokens_per_s, 0);
}

TEST_F(RealTrainerTest, the_plain_reference_is_the_same_mathematics) {
  const auto record = compare(*read_file(target_.reference()));
  EXPECT_TRUE(record.gates.l1.passed) << record.gates.l1.text;
  EXPECT_TRUE(record.gates.l2.passed) << record.gates.l2.text;
}

TEST_F(RealTrainerTest, an_output_wrong_by_one_percent_is_regressed) {
  const auto record = compare(scaled_champion("1.01f"));
  EXPECT_EQ(record.status, Status::regressed) << record.explanation;
  EXPECT_EQ(record.reason, "l1-failed") << record.explanation;
  EXPECT_TRUE(record.pairs.empty());
}

TEST_F(RealTrainerTest, an_output_that_is_not_a_number_is_regressed_at_its_step) {
  const auto record = compare(scaled_champion("__builtin_nanf(\"\")"));
  EXPECT_EQ(record.status, Status::regressed) << record.explanation;
  EXPECT_EQ(record.reason, "l0-failed") << record.explanation;
}

}  // namespace
}  // namespace kl
