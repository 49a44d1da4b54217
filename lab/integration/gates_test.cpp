#include <lab/core/files.hpp>
#include <lab/integration/gates.hpp>
#include <lab/integration/replay_gate.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace kl {
namespace {

LossCurve calm_curve(int steps = 40) {
  LossCurve curve;
  for (int i = 0; i < steps; ++i) {
    curve.loss.push_back(9 - 0.01 * i);
    curve.grad_norm.push_back(1 + 0.1 * std::sin(i));
  }
  return curve;
}

Gate l0(const LossCurve& candidate) {
  const LossCurve baseline = calm_curve();
  return finite_and_tame(std::span(&baseline, 1), std::span(&candidate, 1));
}

TEST(FiniteAndTame, the_baselines_own_curve_passes) { EXPECT_TRUE(l0(calm_curve()).passed); }

TEST(FiniteAndTame, infinite_or_exploding_losses_and_norms_fail) {
  for (const double bad : {std::nan(""), HUGE_VAL, 101.0}) {
    auto curve = calm_curve();
    curve.loss[17] = bad;
    EXPECT_FALSE(l0(curve).passed) << bad;
    EXPECT_NE(l0(curve).text.find("step 17"), std::string::npos);
  }
  auto curve = calm_curve();
  curve.grad_norm[3] = std::nan("");
  EXPECT_FALSE(l0(curve).passed);
}

TEST(FiniteAndTame, twice_the_baselines_largest_norm_is_inside_the_fence_and_more_is_not) {
  auto curve = calm_curve();
  curve.grad_norm[9] = 2.0;
  EXPECT_TRUE(l0(curve).passed);
  curve.grad_norm[9] = 3;
  EXPECT_FALSE(l0(curve).passed);
}

TEST(FiniteAndTame, without_a_baseline_nothing_is_known) {
  const LossCurve candidate = calm_curve();
  EXPECT_FALSE(finite_and_tame({}, std::span(&candidate, 1)).ran);
}

ReplayPoint same_point() { return {0, 0, 9.0, 9.0, 9.0, 1.0, 1.0}; }

TEST(SameLossAndGradient, the_tolerance_is_the_larger_of_its_least_and_three_floors) {
  auto point = same_point();
  point.loss_candidate = 9 + 0.9e-6;
  EXPECT_TRUE(same_loss_and_gradient(std::span(&point, 1), replay_tolerance("f32")).passed);
  point.loss_candidate = 9 + 1.1e-6;
  EXPECT_FALSE(same_loss_and_gradient(std::span(&point, 1), replay_tolerance("f32")).passed);
  point.loss_repeat = 9 - 1e-6;
  EXPECT_TRUE(same_loss_and_gradient(std::span(&point, 1), replay_tolerance("f32")).passed);
}

TEST(SameLossAndGradient, bf16_allows_ten_to_the_minus_four_nats_and_minus_three_of_cosine) {
  auto point = same_point();
  point.loss_candidate = 9 + 0.9e-4;
  point.cosine = 1 - 0.9e-3;
  EXPECT_TRUE(same_loss_and_gradient(std::span(&point, 1), replay_tolerance("bf16")).passed);
  EXPECT_FALSE(same_loss_and_gradient(std::span(&point, 1), replay_tolerance("f32")).passed);
  point.cosine = 1 - 1.1e-3;
  EXPECT_FALSE(same_loss_and_gradient(std::span(&point, 1), replay_tolerance("bf16")).passed);
}

TEST(SameLossAndGradient, numbers_that_are_none_fail) {
  for (double ReplayPoint::* field : {&ReplayPoint::loss_candidate, &ReplayPoint::cosine,
                                      &ReplayPoint::norm_ratio}) {
    auto point = same_point();
    point.*field = std::nan("");
    EXPECT_FALSE(same_loss_and_gradient(std::span(&point, 1), replay_tolerance("f32")).passed);
  }
}

TEST(SameLossAndGradient, nothing_replayed_is_not_a_pass) {
  EXPECT_FALSE(same_loss_and_gradient({}, replay_tolerance("f32")).ran);
}

TEST(Divergence, is_the_root_mean_square_over_the_first_steps) {
  LossCurve a, b;
  a.loss = {1, 1, 1, 1};
  b.loss = {1, 4, 5, 100};
  EXPECT_DOUBLE_EQ(divergence(a, b, 3), std::sqrt(25.0 / 3));
  EXPECT_TRUE(std::isnan(divergence(a, b, 0)));
}

TEST(BoundedDivergence, twice_the_largest_replicate_is_the_bound) {
  const double perturbed[] = {1e-4, 3e-4, 2e-4};
  EXPECT_TRUE(bounded_divergence(5.9e-4, perturbed, 0).passed);
  EXPECT_FALSE(bounded_divergence(6.1e-4, perturbed, 0).passed);
  EXPECT_FALSE(bounded_divergence(std::nan(""), perturbed, 0).passed);
}

TEST(BoundedDivergence, twice_the_plain_references_is_allowed_as_well) {
  const double perturbed[] = {1e-3, 2e-3, 1e-3};
  EXPECT_FALSE(bounded_divergence(8e-3, perturbed, 0).passed);
  EXPECT_TRUE(bounded_divergence(8e-3, perturbed, 0, 5e-3).passed);
  EXPECT_FALSE(bounded_divergence(11e-3, perturbed, 0, 5e-3).passed);
  EXPECT_TRUE(bounded_divergence(3e-3, perturbed, 0, 1e-3).passed);  // it takes nothing away
}

TEST(BoundedDivergence, a_perturbation_without_effect_is_no_measure) {
  const double nothing[] = {0, 0, 0};
  EXPECT_FALSE(bounded_divergence(0, nothing, 0).ran);
  EXPECT_FALSE(bounded_divergence(0, {}, 0).ran);
}

TEST(CandidateRan, needs_the_hash_the_calls_of_every_step_and_the_total) {
  TrainerRun run;
  run.start = TrainerStart{};
  run.start->libraries["s"] = {"path", "source", "lib"};
  for (int i = 0; i < 4; ++i) {
    TrainerStep step;
    step.seams["s"] = {{{"forward", 3}, {"backward", 3}}, 10};
    run.steps.push_back(step);
  }
  run.seam_calls["s"] = {{"forward", 12}, {"backward", 12}};
  const SeamCalls three{{"forward", 3}, {"backward", 3}};
  const SeamLibrary mine{"path", "source", "lib"};
  EXPECT_TRUE(candidate_ran(run, "s", mine, three, 4).passed);
  EXPECT_FALSE(candidate_ran(run, "s", {"path", "source", "other"}, three, 4).passed);
  EXPECT_FALSE(candidate_ran(run, "s", mine, three, 5).passed);
  EXPECT_FALSE(candidate_ran(run, "t", mine, three, 4).passed);
  auto skipped = run;
  skipped.steps[2].seams["s"].calls["backward"] = 2;
  EXPECT_FALSE(candidate_ran(skipped, "s", mine, three, 4).passed);
  auto evaluated = run;
  evaluated.evals.push_back({});
  evaluated.seam_calls["s"]["forward"] = 15;  // those of an evaluation are apart
  EXPECT_FALSE(candidate_ran(evaluated, "s", mine, three, 4).passed);
  EXPECT_FALSE(candidate_ran(run, "s", mine, {}, 4).passed);  // nothing expected proves nothing
}

TEST(CandidateRan, an_operation_that_the_step_never_calls_must_not_be_called) {
  TrainerRun run;
  run.start = TrainerStart{};
  run.start->libraries["add"] = {"path", "source", "lib"};
  const SeamLibrary mine{"path", "source", "lib"};
  TrainerStep step;
  step.seams["add"] = {{{"forward", 8}, {"backward", 0}}, 10};
  run.steps.push_back(step);
  run.seam_calls["add"] = {{"forward", 8}};
  EXPECT_TRUE(candidate_ran(run, "add", mine, {{"forward", 8}}, 1).passed);
  run.steps[0].seams["add"].calls["backward"] = 8;
  EXPECT_FALSE(candidate_ran(run, "add", mine, {{"forward", 8}}, 1).passed);
}

TEST(MemoryWithin, two_percent_of_the_median_is_allowed) {
  const int64_t before[] = {100, 100, 500};
  const int64_t fits[] = {102, 1, 102}, over[] = {103, 103, 1};
  EXPECT_TRUE(memory_within(before, fits).passed);
  EXPECT_FALSE(memory_within(before, over).passed);
  const int64_t unknown[] = {0, 0, 0};
  EXPECT_FALSE(memory_within(unknown, fits).ran);
}

TEST(CompareGradients, cosine_and_norm_of_known_vectors) {
  const auto folder = *TemporaryFolder::create("kl-gradients");
  const auto put = [&](const char* name, std::vector<float> values) {
    const fs::path file = folder.path() / name;
    EXPECT_TRUE(write_file_atomic(file, {reinterpret_cast<const char*>(values.data()),
                                         values.size() * sizeof(float)}).ok());
    return file;
  };
  const auto a = put("a", {3, 4, 0});
  const auto opposite = compare_gradients(a, put("b", {-6, -8, 0}));
  ASSERT_TRUE(opposite.ok());
  EXPECT_DOUBLE_EQ(opposite->cosine, -1);
  EXPECT_DOUBLE_EQ(opposite->norm_ratio, 2);
  const auto right_angle = compare_gradients(a, put("c", {0, 0, 5}));
  EXPECT_DOUBLE_EQ(right_angle->cosine, 0);
  EXPECT_FALSE(compare_gradients(a, put("d", {3, 4})).ok());
  EXPECT_FALSE(compare_gradients(a, put("e", {})).ok());
  EXPECT_FALSE(compare_gradients(a, folder.path() / "absent").ok());
}

TEST(SnapshotSteps, are_first_middle_and_last) {
  EXPECT_EQ(snapshot_steps(5, 30), (std::vector<int64_t>{0, 17, 34}));
}

}  // namespace
}  // namespace kl
