#include "fake_setup.hpp"

#include <gmock/gmock.h>

namespace kl {
namespace {

using testing::HasSubstr;

class IntegrationAbTest : public FakeSetup {
 protected:
  IntegrationRecord run() { return integration_ab(request()); }
  // The candidate's step takes this share of the baseline's.
  void step_ratio(double ratio) {
    baseline()["step_ns"] = 1e8;
    candidate()["step_ns"] = ratio * 1e8;
  }
};

TEST_F(IntegrationAbTest, five_percent_faster_with_every_gate_passed_is_validated_at_the_first_look) {
  step_ratio(0.95);
  const auto record = run();
  EXPECT_EQ(record.status, Status::validated) << record.explanation;
  EXPECT_EQ(record.look.pairs, 4);
  EXPECT_EQ(record.orders, (std::vector<std::string>{"AB", "BA", "BA", "AB"}));
  EXPECT_NEAR(record.look.speed_up, 1 / 0.95 - 1, 0.01);
  EXPECT_TRUE(record.gates.l0.passed && record.gates.l1.passed && record.gates.l2.passed &&
              record.gates.memory.passed && record.gates.calls.passed);
  EXPECT_NEAR(static_cast<double>(record.steps_per_leg), 40, 1);  // 4 s of 100 ms steps
  EXPECT_EQ(record.calls_expected_per_step, (SeamCalls{{"forward", 3}, {"backward", 3}}));
  EXPECT_EQ(record.calls_seen_per_step, record.calls_expected_per_step);
  EXPECT_NEAR(record.seam_share.at("seam"), 0.25, 1e-9);
  EXPECT_EQ(record.lines.added, 2);
  EXPECT_EQ(record.lines.removed, 1);
  EXPECT_EQ(record.replays.size(), 6u);
  EXPECT_NEAR(record.look.delta, 2 * 2.131 * 0.0015 / 4, 0.0035);
}

TEST_F(IntegrationAbTest, the_record_reads_back_and_its_samples_are_kept) {
  step_ratio(0.95);
  const auto record = run();
  const auto again = from_json<IntegrationRecord>(to_json(record));
  ASSERT_TRUE(again.ok()) << again.error().what;
  EXPECT_EQ(again->status, record.status);
  EXPECT_EQ(again->pairs.size(), record.pairs.size());
  EXPECT_EQ(again->look.decision, record.look.decision);
  const auto samples = ObjectStore(root_.path() / "samples").get(record.samples_file);
  ASSERT_TRUE(samples.ok()) << samples.error().what;
  const auto json = parse_json(*samples, "samples");
  ASSERT_TRUE(json.ok());
  // One discarded run of each arm, then four legs each.
  EXPECT_EQ((*json)["baseline"].size(), 5u);
  EXPECT_EQ((*json)["candidate"].size(), 5u);
  EXPECT_EQ((*json)["candidate"][1]["ns"].size(), static_cast<size_t>(5 + record.steps_per_leg));
}

TEST_F(IntegrationAbTest, slower_is_regressed) {
  step_ratio(1.05);
  const auto record = run();
  EXPECT_EQ(record.status, Status::regressed);
  EXPECT_EQ(record.reason, "slower");
}

TEST_F(IntegrationAbTest, the_same_speed_is_equivalent) {
  step_ratio(1.0);
  const auto record = run();
  EXPECT_EQ(record.status, Status::equivalent) << record.explanation;
}

TEST_F(IntegrationAbTest, an_effect_at_the_bound_is_underpowered_and_says_how_many_pairs_decide) {
  step_ratio(std::exp(-stats::effective_delta(0.002)));
  script["leg_noise"] = 0.003;
  auto wanted = request();
  wanted.s_aa = 0.002;
  wanted.max_pairs = 4;
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "underpowered") << record.explanation;
  EXPECT_EQ(record.pairs.size(), 4u);
  EXPECT_GT(record.n_needed, 4);
}

TEST_F(IntegrationAbTest, pairs_that_scatter_far_beyond_the_calibrated_noise_are_a_noisy_platform) {
  step_ratio(0.95);
  script["leg_noise"] = 0.03;
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "noisy-platform") << record.explanation;
  EXPECT_GT(record.n_needed, 0);
}

TEST_F(IntegrationAbTest, stalls_that_the_trimmed_mean_hides_do_not_become_a_win) {
  step_ratio(0.95);
  candidate()["stall_ns"] = 4e8;
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_THAT(record.explanation, HasSubstr("stalls"));
}

TEST_F(IntegrationAbTest, more_memory_makes_a_faster_kernel_mixed) {
  step_ratio(0.95);
  candidate()["peak_bytes"] = 103'000'000;
  const auto record = run();
  EXPECT_EQ(record.status, Status::mixed);
  EXPECT_EQ(record.reason, "memory");
  EXPECT_NEAR(record.gates.memory.seen, 1.03, 1e-9);
}

TEST_F(IntegrationAbTest, a_loss_that_is_not_finite_is_regressed) {
  step_ratio(0.95);
  candidate()["nan_at"] = 7;
  const auto record = run();
  EXPECT_EQ(record.status, Status::regressed);
  EXPECT_EQ(record.reason, "l0-failed") << record.explanation;
  EXPECT_THAT(record.explanation, HasSubstr("step 7"));
}

TEST_F(IntegrationAbTest, a_gradient_norm_outlier_that_the_baseline_lacks_is_regressed) {
  step_ratio(0.95);
  candidate()["spike_at"] = 20;
  const auto record = run();
  EXPECT_EQ(record.status, Status::regressed);
  EXPECT_EQ(record.reason, "l0-failed") << record.explanation;
}

TEST_F(IntegrationAbTest, a_gradient_norm_outlier_of_both_arms_is_the_models_own) {
  step_ratio(0.95);
  baseline()["spike_at"] = 20;
  const auto record = run();
  EXPECT_EQ(record.status, Status::validated) << record.explanation;
}

TEST_F(IntegrationAbTest, another_loss_from_the_same_weights_is_regressed_before_any_pair_runs) {
  step_ratio(0.5);
  candidate()["loss_offset"] = 2e-6;
  const auto record = run();
  EXPECT_EQ(record.status, Status::regressed);
  EXPECT_EQ(record.reason, "l1-failed") << record.explanation;
  EXPECT_TRUE(record.pairs.empty());
}

TEST_F(IntegrationAbTest, a_loss_difference_inside_three_times_the_floor_passes) {
  step_ratio(0.95);
  script["replay_noise"] = 1e-6;  // two baseline replays differ by this
  candidate()["loss_offset"] = 1.5e-6;
  const auto record = run();
  EXPECT_EQ(record.status, Status::validated) << record.explanation;
}

TEST_F(IntegrationAbTest, another_gradient_direction_is_regressed) {
  step_ratio(0.95);
  candidate()["gradient_tilt"] = 0.01;  // against (3, 4): cosine 1 - 2e-6
  const auto record = run();
  EXPECT_EQ(record.reason, "l1-failed");
  EXPECT_THAT(record.explanation, HasSubstr("cosine"));
}

TEST_F(IntegrationAbTest, bf16_has_the_wider_cosine) {
  step_ratio(0.95);
  script["dtype"] = "bf16";
  candidate()["gradient_tilt"] = 0.01;
  candidate()["loss_offset"] = 5e-5;
  EXPECT_EQ(run().status, Status::validated);
}

TEST_F(IntegrationAbTest, a_gradient_of_another_length_is_regressed_though_its_direction_fits) {
  step_ratio(0.95);
  candidate()["gradient_scale"] = 1.01;
  const auto record = run();
  EXPECT_EQ(record.reason, "l1-failed");
  EXPECT_THAT(record.explanation, HasSubstr("norm"));
}

TEST_F(IntegrationAbTest, curves_that_part_further_than_rounding_explains_are_changed_maths) {
  step_ratio(0.95);
  candidate()["curve_offset"] = 2.5e-5;  // perturbed baselines part by 1e-5
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "maths-changed") << record.explanation;
}

TEST_F(IntegrationAbTest, curves_that_part_as_far_as_rounding_explains_pass) {
  step_ratio(0.95);
  candidate()["curve_offset"] = 1.5e-5;
  EXPECT_EQ(run().status, Status::validated);
}

TEST_F(IntegrationAbTest, perturbed_baselines_run_once_and_then_come_from_the_cache) {
  step_ratio(0.95);
  const auto runs = [&] { return fs::file_size(root_.path() / "counter"); };
  const auto first = run();
  const auto after_first = runs();
  const auto second = run();
  // The second comparison repeats everything but the three perturbed legs.
  EXPECT_EQ(runs() - after_first, after_first - 3);
  EXPECT_EQ(first.perturbed.replicates, second.perturbed.replicates);
}

TEST_F(IntegrationAbTest, a_reduced_precision_class_needs_more_than_one_seed) {
  step_ratio(0.95);
  spec("reduced-precision", "seam");
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "loss-underpowered");
}

TEST_F(IntegrationAbTest, a_reduced_precision_class_that_is_slower_is_regressed_all_the_same) {
  step_ratio(1.05);
  spec("reduced-precision", "seam");
  EXPECT_EQ(run().status, Status::regressed);
}

TEST_F(IntegrationAbTest, a_trainer_without_replay_leaves_the_gates_open) {
  step_ratio(0.95);
  script["replay"] = false;
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "gates-not-run");
  EXPECT_FALSE(record.gates.l1.ran);
  EXPECT_EQ(record.pairs.size(), 4u);
}

TEST_F(IntegrationAbTest, a_trainer_that_refuses_or_ignores_perturb_leaves_the_gates_open) {
  step_ratio(0.95);
  for (const char* way : {"refused", "ignored"}) {
    script["perturb"] = way;
    const auto record = run();
    EXPECT_EQ(record.reason, "gates-not-run") << way;
    EXPECT_FALSE(record.gates.l2.ran);
  }
}

TEST_F(IntegrationAbTest, memory_that_is_not_reported_leaves_the_gates_open) {
  step_ratio(0.95);
  baseline()["no_memory"] = true;
  EXPECT_EQ(run().reason, "gates-not-run");
}

TEST_F(IntegrationAbTest, too_few_calls_are_no_proof_that_the_candidate_ran) {
  step_ratio(0.95);
  candidate()["calls"] = 2;
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "gates-not-run");
  EXPECT_EQ(record.calls_seen_per_step.at("forward"), 2);
  EXPECT_THAT(record.explanation, HasSubstr("did not provably run"));
}

TEST_F(IntegrationAbTest, a_backward_call_too_many_is_no_proof_either) {
  step_ratio(0.95);
  candidate()["extra_backward"] = 1;
  EXPECT_EQ(run().reason, "gates-not-run");
}

TEST_F(IntegrationAbTest, another_library_than_the_candidates_is_no_proof) {
  step_ratio(0.95);
  candidate()["loaded_hash"] = "0000";
  const auto record = run();
  EXPECT_EQ(record.reason, "gates-not-run");
  EXPECT_THAT(record.explanation, HasSubstr("loaded library 0000"));
}

TEST_F(IntegrationAbTest, a_candidate_that_crashes_the_trainer_is_aborted) {
  step_ratio(0.95);
  candidate()["die_at"] = 12;
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "aborted");
  EXPECT_THAT(record.explanation, HasSubstr("candidate leg died of signal 6 after 12 steps"));
}

TEST_F(IntegrationAbTest, a_clean_exit_without_finish_is_aborted) {
  step_ratio(0.95);
  candidate()["exit_at"] = 30;
  EXPECT_EQ(run().reason, "aborted");
}

TEST_F(IntegrationAbTest, a_lost_step_is_aborted_not_divided_away) {
  step_ratio(0.95);
  candidate()["lost_step"] = 20;
  auto wanted = request();
  wanted.steps = 40;
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.reason, "aborted");
  EXPECT_THAT(record.explanation, HasSubstr("timed 39 steps; 40 were asked for"));
}

TEST_F(IntegrationAbTest, a_hang_is_aborted) {
  step_ratio(0.95);
  candidate()["hang_at"] = 3;
  auto wanted = request();
  wanted.leg_timeout_seconds = 1;
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.reason, "aborted");
  EXPECT_THAT(record.explanation, HasSubstr("was stopped"));
}

TEST_F(IntegrationAbTest, garbage_lines_change_nothing) {
  step_ratio(0.95);
  candidate()["garbage_at"] = 9;
  EXPECT_EQ(run().status, Status::validated);
}

TEST_F(IntegrationAbTest, a_configuration_that_changes_between_legs_is_a_fingerprint_mismatch) {
  step_ratio(0.95);
  script["moves_at_leg"] = 8;
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "fingerprint-mismatch") << record.explanation;
}

TEST_F(IntegrationAbTest, another_boot_between_legs_is_a_fingerprint_mismatch) {
  step_ratio(0.95);
  auto wanted = request();
  int calls = 0;
  wanted.machine = [&calls] {
    auto session = current_session();
    if (++calls > 5) session.boot_id = "another";
    return session;
  };
  EXPECT_EQ(integration_ab(wanted).reason, "fingerprint-mismatch");
}

TEST_F(IntegrationAbTest, without_noise_on_file_eight_aa_pairs_run_first_and_it_says_so) {
  step_ratio(0.95);
  auto wanted = request();
  wanted.s_aa.reset();
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::validated) << record.explanation;
  EXPECT_TRUE(record.s_aa_measured_first);
  EXPECT_EQ(record.aa_log_ratios.size(), 8u);
  EXPECT_GT(record.s_aa, 0);
  ASSERT_FALSE(record.notices.empty());
  EXPECT_THAT(record.notices.front(), HasSubstr("8 A/A pairs ran first"));
}

TEST_F(IntegrationAbTest, legs_that_cannot_be_as_short_as_was_asked_say_so) {
  step_ratio(0.95);
  auto wanted = request();
  wanted.steps = 0;
  for (const auto& [seconds, noticed] : {std::pair{1.0, true}, {3.0, false}}) {
    wanted.leg_seconds = seconds;
    const auto record = integration_ab(wanted);
    EXPECT_NEAR(static_cast<double>(record.steps_per_leg), 30, 1) << record.explanation;
    const auto told = testing::Contains(HasSubstr("a leg took 3 s of steps, not 1: fewer than 30 steps of 100 ms cannot be compared"));
    if (noticed)
      EXPECT_THAT(record.notices, told);
    else
      EXPECT_THAT(record.notices, testing::Not(told));
  }
}

TEST_F(IntegrationAbTest, a_target_without_a_seam_needs_an_adapter) {
  spec("exact-reorder", "");
  EXPECT_EQ(run().status, Status::needs_integration_adapter);
  spec("exact-reorder", "elsewhere");
  const auto record = run();
  EXPECT_EQ(record.status, Status::needs_integration_adapter);
  EXPECT_THAT(record.explanation, HasSubstr("does not run seam elsewhere"));
}

TEST_F(IntegrationAbTest, a_shadowed_seam_is_opened_in_both_arms_and_validated_only_against_the_path_too) {
  step_ratio(0.95);
  script["path"] = {{"step_ns", 1e8}};
  const auto record = run();
  EXPECT_EQ(record.status, Status::validated) << record.explanation;
  EXPECT_EQ(record.opened_by, (std::map<std::string, std::string>{{"region", "open"}}));
  EXPECT_EQ(record.path_log_ratios.size(), 4u);
  ASSERT_TRUE(record.path_look.has_value());
  EXPECT_NEAR(record.path_look->speed_up, 1 / 0.95 - 1, 0.005);
  EXPECT_THAT(record.explanation, HasSubstr("beats the path"));
  EXPECT_THAT(record.notices, testing::Contains(HasSubstr("shadowed: preset tiny")));
  EXPECT_EQ(record.s_aa_path, "preset");
  EXPECT_THAT(record.notices, testing::Contains(HasSubstr("of the preset's own path")));
}

TEST_F(IntegrationAbTest, the_noise_of_a_shadowed_seam_that_is_measured_first_is_that_of_the_opened_path) {
  step_ratio(0.95);
  script["path"] = {{"step_ns", 1e8}};
  auto wanted = request();
  wanted.s_aa.reset();
  const auto record = integration_ab(wanted);
  EXPECT_TRUE(record.s_aa_measured_first);
  EXPECT_EQ(record.s_aa_path, "opened");
}

TEST_F(IntegrationAbTest, a_shadowed_seam_that_only_beats_its_own_champion_is_mixed) {
  step_ratio(0.95);
  script["path"] = {{"step_ns", 0.9e8}};
  const auto record = run();
  EXPECT_EQ(record.status, Status::mixed) << record.explanation;
  EXPECT_EQ(record.reason, "shadowed");
  EXPECT_LT(record.path_look->speed_up, 0);
}

TEST_F(IntegrationAbTest, a_shadowed_seam_whose_second_claim_is_undecided_says_what_would_decide_it) {
  step_ratio(0.95);
  script["path"] = {{"step_ns", 0.955e8}};
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive) << record.explanation;
  EXPECT_EQ(record.reason, "underpowered");
  EXPECT_THAT(record.explanation, HasSubstr("not shown to be faster than the path"));
  EXPECT_GT(record.n_needed, 4);
  EXPECT_THAT(record.remedy, HasSubstr(std::to_string(record.n_needed) + " pairs"));
}

TEST_F(IntegrationAbTest, a_shadowed_seam_that_is_slower_asks_no_second_question) {
  step_ratio(1.05);
  script["path"] = {{"step_ns", 1e8}};
  const auto record = run();
  EXPECT_EQ(record.status, Status::regressed);
  EXPECT_FALSE(record.path_look.has_value());
}

TEST_F(IntegrationAbTest, a_failing_leg_of_the_path_is_no_verdict) {
  step_ratio(0.95);
  script["path"] = {{"exit_at", 3}};
  const auto record = run();
  EXPECT_EQ(record.status, Status::inconclusive) << record.explanation;
  EXPECT_EQ(record.reason, "aborted");
}

TEST_F(IntegrationAbTest, a_candidate_that_does_not_compile_carries_the_compilers_words) {
  write("candidate.cpp", "int broken( {\n");
  const auto record = run();
  EXPECT_EQ(record.status, Status::build_failed);
  EXPECT_THAT(record.explanation, HasSubstr("candidate.cpp"));
}

TEST_F(IntegrationAbTest, an_unknown_preset_or_baseline_is_a_usage_error_with_near_matches) {
  auto wanted = request();
  wanted.preset = "balancd";
  auto record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::usage);
  EXPECT_THAT(record.remedy, HasSubstr("balanced"));
  wanted = request();
  wanted.against = "referenc";
  record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::usage);
  EXPECT_THAT(record.remedy, HasSubstr("reference"));
}

TEST_F(IntegrationAbTest, against_reference_the_reference_is_the_baseline) {
  step_ratio(0.95);
  auto wanted = request();
  wanted.against = "reference";
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::validated) << record.explanation;
  EXPECT_EQ(record.identity.baseline, sha256_hex("extern \"C\" int kernel() { return 3; }\n"));
}

TEST_F(IntegrationAbTest, a_bench_gain_that_the_step_does_not_show_is_pointed_out) {
  step_ratio(0.95);  // 5 % of the step; a share of 25 % made 4 x faster would be 19 %
  auto wanted = request();
  const double ratio = std::log(0.25);
  wanted.bench = stats::Interval{ratio, ratio - 0.01, ratio + 0.01, 0.95};
  auto record = integration_ab(wanted);
  ASSERT_TRUE(record.amdahl.has_value());
  EXPECT_TRUE(record.amdahl->warn);
  EXPECT_THAT(record.notices.back(), HasSubstr("does not stand for the trainer"));
  // 0.8 of 25 % is 5 % of the step.
  wanted.bench = stats::Interval{std::log(0.8), std::log(0.79), std::log(0.81), 0.95};
  record = integration_ab(wanted);
  EXPECT_FALSE(record.amdahl->warn);
}

TEST_F(IntegrationAbTest, a_winner_out_of_several_tries_is_told_to_win_again) {
  step_ratio(0.95);
  auto wanted = request();
  wanted.tries = 3;
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.tries, 3);
  EXPECT_THAT(record.notices.back(), HasSubstr("3 tries"));
}

TEST_F(IntegrationAbTest, an_evaluation_may_call_forward_more_often) {
  step_ratio(0.95);
  auto wanted = request();
  wanted.skip_eval = false;
  EXPECT_EQ(integration_ab(wanted).status, Status::validated);
}

class RunAaTest : public FakeSetup {
 protected:
  AaRequest aa_request() {
    const auto base = request();
    AaRequest request;
    request.engine = base.engine;
    request.catalogue = base.catalogue;
    request.preset = base.preset;
    request.trainer = base.trainer;
    request.trainer_arguments = base.trainer_arguments;
    request.samples = base.samples;
    request.library_cache = base.library_cache;
    request.processor_time = base.processor_time;
    return request;
  }
};

TEST_F(RunAaTest, eight_pairs_give_the_noise_and_the_share_of_every_seam) {
  script["leg_noise"] = 0.01;
  const auto record = run_aa(aa_request());
  ASSERT_EQ(record.status, Status::ok) << record.reason;
  ASSERT_EQ(record.log_ratios.size(), 8u);
  double mean = 0, squares = 0;
  for (const double d : record.log_ratios) mean += d / 8;
  for (const double d : record.log_ratios) squares += (d - mean) * (d - mean);
  EXPECT_NEAR(record.s_aa, std::sqrt(squares / 7), 1e-12);
  EXPECT_DOUBLE_EQ(record.delta_eff, std::max(0.005, 2 * 2.131 * record.s_aa / 4));
  EXPECT_NEAR(record.seam_share.at("seam"), 0.25, 1e-9);
  EXPECT_NEAR(static_cast<double>(record.steps_per_leg), 40, 1);
  EXPECT_EQ(fs::file_size(root_.path() / "counter"), 17u);  // one discarded, 8 pairs
  EXPECT_FALSE(record.samples_file.empty());
}

// Readings in which others fill so many processors.
std::function<std::optional<ProcessorTime>()> others_use(double processors) {
  auto taken = std::make_shared<int>(0);
  return [=]() -> std::optional<ProcessorTime> {
    const double seconds = 10.0 * (*taken)++;
    return ProcessorTime{static_cast<int64_t>(1e9 * seconds), 100 + (1.5 + processors) * seconds, 1.5 * seconds};
  };
}

TEST_F(RunAaTest, pairs_beside_other_work_are_unstable_and_keep_their_numbers) {
  auto wanted = aa_request();
  wanted.processor_time = others_use(1.0);
  const auto record = run_aa(wanted);
  EXPECT_EQ(record.status, Status::unstable);
  EXPECT_THAT(record.reason, HasSubstr("other processes used 1.00 processors"));
  EXPECT_THAT(record.remedy, HasSubstr("calibrate again on a quiet machine"));
  EXPECT_EQ(record.log_ratios.size(), 8u);
  EXPECT_DOUBLE_EQ(record.load.value().others_processors, 1.0);
  wanted.processor_time = others_use(0.1);
  EXPECT_EQ(run_aa(wanted).status, Status::ok);
  wanted.processor_time = [] { return std::nullopt; };
  EXPECT_EQ(run_aa(wanted).status, Status::ok);
}

TEST_F(RunAaTest, pairs_that_scatter_too_far_to_decide_anything_are_unstable) {
  script["leg_noise"] = 0.2;
  auto wanted = aa_request();
  wanted.processor_time = others_use(0);
  const auto record = run_aa(wanted);
  EXPECT_EQ(record.status, Status::unstable);
  EXPECT_THAT(record.reason, HasSubstr("scatter"));
}

TEST_F(IntegrationAbTest, shares_beside_other_work_are_not_used_and_the_verdict_stands) {
  step_ratio(0.95);
  auto wanted = request();
  wanted.processor_time = others_use(1.0);
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::validated) << record.explanation;
  EXPECT_TRUE(record.seam_share.empty());
  EXPECT_THAT(record.notices, testing::Contains(HasSubstr("shares of the step are not used")));
}

TEST_F(IntegrationAbTest, noise_that_would_call_everything_equivalent_decides_nothing) {
  step_ratio(0.95);
  script["leg_noise"] = 0.2;
  auto wanted = request();
  wanted.s_aa.reset();
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::inconclusive) << record.explanation;
  EXPECT_EQ(record.reason, "noisy-platform");
  EXPECT_TRUE(record.pairs.empty());
}

TEST_F(RunAaTest, short_steps_make_short_legs_and_a_budget_makes_them_longer) {
  baseline()["step_ns"] = 2e7;
  script["leg_noise"] = 0;
  auto wanted = aa_request();
  wanted.pairs = 1;
  EXPECT_NEAR(static_cast<double>(run_aa(wanted).steps_per_leg), 75, 1);  // 1.5 s of 20 ms
  wanted.leg_seconds = 4;
  EXPECT_NEAR(static_cast<double>(run_aa(wanted).steps_per_leg), 200, 1);
}

TEST_F(RunAaTest, an_aborted_leg_is_no_noise) {
  baseline()["die_at"] = 3;
  const auto record = run_aa(aa_request());
  EXPECT_EQ(record.status, Status::execution_failed);
  EXPECT_THAT(record.reason, HasSubstr("aborted"));
}

class TurnsAbTest : public IntegrationAbTest {
 protected:
  void SetUp() override {
    IntegrationAbTest::SetUp();
    script["turns"] = true;
    script["turn_log"] = (root_.path() / "turns").string();
  }
};

TEST_F(TurnsAbTest, the_two_legs_of_a_pair_step_in_turn) {
  step_ratio(0.95);
  auto wanted = request();
  wanted.steps = 96;
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::validated) << record.explanation;
  EXPECT_EQ(record.turns, 24);  // four steps of 100 ms a turn
  EXPECT_EQ(record.pairs.front().baseline.turn_ns.size(), 24u);
  EXPECT_NEAR(record.look.speed_up, 1 / 0.95 - 1, 0.01);
  const auto log = read_file(root_.path() / "turns");
  ASSERT_TRUE(log.ok());
  // The last letters of "baseline" and "candidate" are the same; the order is TurnsTest's affair.
  EXPECT_EQ(log->size(), 4u * 2 * 25);
}

TEST_F(TurnsAbTest, the_same_speed_is_equivalent) {
  step_ratio(1.0);
  EXPECT_EQ(run().status, Status::equivalent);
}

TEST_F(TurnsAbTest, a_candidate_that_dies_in_its_turn_is_named_and_the_other_leg_ends) {
  step_ratio(0.95);
  candidate()["die_at"] = 20;
  auto wanted = request();
  const auto record = integration_ab(wanted);
  EXPECT_EQ(record.status, Status::inconclusive);
  EXPECT_EQ(record.reason, "aborted");
  EXPECT_THAT(record.explanation, HasSubstr("candidate"));
}

TEST_F(TurnsAbTest, a_trainer_that_promises_turns_and_takes_none_decides_nothing) {
  step_ratio(0.95);
  candidate()["ignores_turns"] = true;
  const auto record = run();
  EXPECT_EQ(record.reason, "aborted");
  EXPECT_THAT(record.explanation, HasSubstr("without waiting for its turns"));
}

}  // namespace
}  // namespace kl
