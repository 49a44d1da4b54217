#include <lab/stats/ab_look.hpp>
#include <lab/stats/amdahl.hpp>
#include <lab/stats/bench_verdict.hpp>
#include <lab/stats/block_stop.hpp>
#include <lab/stats/control_check.hpp>
#include <lab/stats/moments.hpp>
#include <lab/stats/order.hpp>
#include <lab/stats/sample_size.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace kl::stats {
namespace {

// n values with exactly this mean and (n-1) standard deviation.
std::vector<double> spread(size_t n, double centre, double sd) {
  std::vector<double> values(n, centre);
  if (n < 2) return values;
  for (size_t i = 0; i < n; ++i)
    values[i] = static_cast<double>(i * 7919 % n) - (static_cast<double>(n) - 1) / 2;
  const double scale = sd / standard_deviation(values), shift = mean(values);
  for (double& value : values) value = centre + (value - shift) * scale;
  return values;
}

TEST(DecideBench, NamesAClearDifferenceEitherWay) {
  const auto faster = decide_bench(spread(10, -0.05, 0.01), kBenchNormal);
  EXPECT_EQ(faster.status, Status::improved);
  EXPECT_EQ(faster.reason, "");
  EXPECT_EQ(faster.n_to_decide, 0);
  EXPECT_NEAR(faster.speed_up, std::exp(0.05) - 1, 1e-12);
  EXPECT_EQ(decide_bench(spread(10, 0.05, 0.01), kBenchNormal).status, Status::regressed);
}

TEST(DecideBench, BothIntervalsMustLieBeyondDelta) {
  // t(0.975, 9) / sqrt(10) = 0.7154, so the t interval of SD 0.01 ends 0.007154 from the mean and is
  // convinced at -0.0172; the signed ranks of these evenly spread values are not.
  const auto t_only = decide_bench(spread(10, -0.0172, 0.01), kBenchNormal);
  EXPECT_TRUE(t_only.t_95.below(-0.01));
  EXPECT_FALSE(t_only.walsh_95.below(-0.01));
  EXPECT_EQ(t_only.status, Status::inconclusive);
  const std::vector<double> lopsided = {-0.03, -0.03, -0.03, -0.03,  -0.03,
                                        -0.03, -0.03, -0.009, -0.009, -0.009};
  const auto ranks_only = decide_bench(lopsided, {.delta = 0.0165});
  EXPECT_FALSE(ranks_only.t_95.below(-0.0165));
  EXPECT_TRUE(ranks_only.walsh_95.below(-0.0165));
  EXPECT_EQ(ranks_only.status, Status::inconclusive);
  EXPECT_EQ(decide_bench(spread(10, -0.019, 0.01), kBenchNormal).status, Status::improved);
}

TEST(DecideBench, EquivalentNeedsTheNinetyPercentIntervalInsideDelta) {
  // t(0.95, 9) / sqrt(10) = 0.5797.
  EXPECT_EQ(decide_bench(spread(10, 0.0042, 0.01), kBenchNormal).status, Status::equivalent);
  EXPECT_EQ(decide_bench(spread(10, 0.0043, 0.01), kBenchNormal).status, Status::inconclusive);
}

TEST(DecideBench, NeverDecidesUnderSixProcesses) {
  const BenchRule eager{.delta = 0.01, .min_processes = 2};
  for (size_t n = 0; n < 6; ++n) {
    const auto verdict = decide_bench(spread(n, -0.5, 0.001), eager);
    EXPECT_EQ(verdict.status, Status::inconclusive) << n;
    EXPECT_EQ(verdict.reason, "underpowered") << n;
    EXPECT_GE(verdict.n_to_decide, 6) << n;
  }
  EXPECT_EQ(decide_bench(spread(6, -0.5, 0.001), eager).status, Status::improved);
}

TEST(DecideBench, SaysWhyItIsUndecidedAndWhatWouldDecide) {
  const auto noisy = decide_bench(spread(10, 0, 0.05), kBenchNormal);
  EXPECT_EQ(noisy.reason, "noisy");
  EXPECT_GT(noisy.n_to_decide, 100);
  const auto close = decide_bench(spread(10, -0.013, 0.01), kBenchNormal);
  EXPECT_EQ(close.reason, "underpowered");
  EXPECT_GT(close.n_to_decide, 10);
  // With as many processes of this kind, the verdict does come.
  const auto enough = spread(static_cast<size_t>(close.n_to_decide), -0.013, 0.01);
  EXPECT_EQ(decide_bench(enough, kBenchNormal).status, Status::improved);
}

TEST(DecideBench, ClocksThatDisagreeOrWanderBlockAVerdict) {
  const auto clear = spread(10, -0.05, 0.01);
  EXPECT_EQ(decide_bench(clear, kBenchNormal, {.cycles_agree = false}).reason, "clock-disagrees");
  EXPECT_EQ(decide_bench(clear, kBenchNormal, {.stable = false}).reason, "unstable-clock");
  EXPECT_EQ(decide_bench(clear, kBenchNormal, {true, true}).status, Status::improved);
}

TEST(DecideBench, AFailedProcessIsCountedAndBlocksAVerdict) {
  auto ratios = spread(10, -0.05, 0.01);
  ratios[3] = std::nan("");
  const auto verdict = decide_bench(ratios, kBenchNormal);
  EXPECT_EQ(verdict.status, Status::inconclusive);
  EXPECT_EQ(verdict.reason, "failures");
  EXPECT_EQ(verdict.failures, 1);
  EXPECT_EQ(verdict.processes, 9);
}

TEST(DecideBench, MirroringTheRatiosMirrorsTheVerdict) {
  for (const double centre : {-0.04, -0.017, -0.004, 0.0, 0.011, 0.03}) {
    auto ratios = spread(10, centre, 0.008);
    const auto there = decide_bench(ratios, kBenchNormal);
    for (double& ratio : ratios) ratio = -ratio;
    const auto back = decide_bench(ratios, kBenchNormal);
    EXPECT_EQ(there.status == Status::improved, back.status == Status::regressed);
    EXPECT_EQ(there.status == Status::regressed, back.status == Status::improved);
    EXPECT_EQ(there.status == Status::equivalent, back.status == Status::equivalent);
  }
}

TEST(DecideBench, TheVerdictSurvivesItsRecord) {
  const auto verdict = decide_bench(spread(10, -0.05, 0.01), kBenchNormal, {true, std::nullopt});
  const auto back = from_json<BenchVerdict>(to_json(verdict));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(to_json(*back), to_json(verdict));
  EXPECT_EQ(to_json(verdict)["status"], "improved");
  EXPECT_TRUE(to_json(verdict)["clock_stable"].is_null());
}

TEST(DecidePairs, ConstantsAreTheSpecified) {
  EXPECT_EQ(kLooks, (std::array{4, 8, 12, 16}));
  EXPECT_EQ(kLookCriticalT, (std::array{4.73, 3.08, 2.77, 2.63}));
  EXPECT_DOUBLE_EQ(effective_delta(0.0014), 0.005);
  EXPECT_DOUBLE_EQ(effective_delta(0.02), 0.02131);
}

TEST(DecidePairs, TheBoundaryTableDecidesAtEachLook) {
  // SD 1 %, critical · SD / sqrt(n) = 0.02365, 0.010889, 0.0079963, 0.006575 beyond δ = 0.5 %.
  const std::array half = {0.02365, 0.0108894, 0.0079963, 0.006575};
  for (size_t i = 0; i < kLooks.size(); ++i) {
    const auto n = static_cast<size_t>(kLooks[i]);
    // Earlier looks see pairs too scattered to decide; the mean and SD of all n are exact.
    const AbRule rule{.delta = 0.005, .stop_when_futile = false};
    const auto over = decide_pairs(spread(n, -0.005 - half[i] - 1e-5, 0.01), rule);
    EXPECT_EQ(over.decision, AbDecision::faster) << n;
    EXPECT_EQ(over.pairs, kLooks[i]);
    EXPECT_EQ(over.look, static_cast<int>(i) + 1);
    const auto under = decide_pairs(spread(n, -0.005 - half[i] + 1e-5, 0.01), rule);
    EXPECT_NE(under.decision, AbDecision::faster) << n;
    const auto slower = decide_pairs(spread(n, 0.005 + half[i] + 1e-5, 0.01), rule);
    EXPECT_EQ(slower.decision, AbDecision::slower) << n;
  }
}

TEST(DecidePairs, AsksForPairsUpToTheNextLook) {
  const AbRule rule{.delta = 0.005, .aa_sd = 0.005};
  EXPECT_EQ(decide_pairs({}, rule).next_pairs, 4);
  EXPECT_EQ(decide_pairs(spread(3, -0.5, 0.001), rule).decision, AbDecision::next_look);
  const auto first = decide_pairs(spread(4, -0.008, 0.005), rule);
  EXPECT_EQ(first.decision, AbDecision::next_look);
  EXPECT_EQ(first.pairs, 4);
  EXPECT_EQ(first.next_pairs, 8);
  EXPECT_GT(first.n_to_decide, 4);
}

TEST(DecidePairs, AnAnswerOnceGivenStays) {
  auto pairs = spread(4, -0.05, 0.001);
  const auto at_four = decide_pairs(pairs, {.delta = 0.005});
  ASSERT_EQ(at_four.decision, AbDecision::faster);
  pairs.insert(pairs.end(), 12, 0.2);
  EXPECT_EQ(to_json(decide_pairs(pairs, {.delta = 0.005})), to_json(at_four));
}

TEST(DecidePairs, PairsBetweenLooksChangeNothing) {
  auto pairs = spread(4, -0.008, 0.005);
  const auto at_four = decide_pairs(pairs, {.delta = 0.005});
  for (int extra = 5; extra < 8; ++extra) {
    pairs.push_back(-0.5);
    EXPECT_EQ(to_json(decide_pairs(pairs, {.delta = 0.005})), to_json(at_four));
  }
}

TEST(DecidePairs, EquivalentWhenTheIntervalIsInsideDelta) {
  const auto look = decide_pairs(spread(4, 0.0005, 0.001), {.delta = 0.005});
  EXPECT_EQ(look.decision, AbDecision::equivalent);
  EXPECT_EQ(look.n_to_decide, 0);
}

TEST(DecidePairs, NoiseStopsAPlatformThatIsNotTheCalibratedOne) {
  const AbRule rule{.delta = 0.005, .aa_sd = 0.002};
  const auto noisy = decide_pairs(spread(4, 0.0, 0.0061), rule);
  EXPECT_EQ(noisy.decision, AbDecision::inconclusive);
  EXPECT_EQ(noisy.reason, "noisy-platform");
  EXPECT_EQ(decide_pairs(spread(4, 0.0, 0.0059), rule).reason, "");
}

// Beyond three times the calibrated SD δ is what this scatter could resolve, 2 · 2.131 · s / √16, so that the first
// look decides from (4.73 / √4 + 1.06550) · s = 3.43050 · s on.
TEST(DecidePairs, TheNoiseStopLeavesWhatIsFarBeyondTheNoiseDecided) {
  const AbRule rule{.delta = 0.005, .aa_sd = 0.002};
  constexpr double kSd = 0.1;
  for (const double sign : {-1.0, 1.0}) {
    const auto over = decide_pairs(spread(4, sign * 0.34306, kSd), rule);
    EXPECT_EQ(over.decision, sign < 0 ? AbDecision::faster : AbDecision::slower);
    EXPECT_DOUBLE_EQ(over.delta, effective_delta(kSd));
    const auto under = decide_pairs(spread(4, sign * 0.34304, kSd), rule);
    EXPECT_EQ(under.decision, AbDecision::inconclusive);
    EXPECT_EQ(under.reason, "noisy-platform");
  }
  // With δ 0.5 % and an SD of 10 % that stays, thousands of pairs would have to show that nothing changed.
  EXPECT_GT(decide_pairs(spread(4, 0, kSd), rule).n_to_decide, 3000);
}

// As seen of a kernel that made a step three to four times faster, on a quiet machine: the scatter of a ratio of
// 0.27 is not that of two equal arms.
TEST(DecidePairs, AStepFourTimesFasterIsFasterThoughItsRatioScatters) {
  const std::array pairs = {std::log(0.31), std::log(0.25), std::log(0.27), std::log(0.25)};
  const auto look = decide_pairs(pairs, {.delta = 0.0245, .aa_sd = 0.023});
  ASSERT_GT(look.sd, kNoiseStopFactor * 0.023);
  EXPECT_EQ(look.decision, AbDecision::faster);
}

TEST(DecidePairs, ScatterBelowTheStopLeavesDeltaAsItWasCalibrated) {
  EXPECT_DOUBLE_EQ(decide_pairs(spread(4, -0.1, 0.0059), {.delta = 0.005, .aa_sd = 0.002}).delta, 0.005);
}

TEST(DecidePairs, FutilityStopsWhatTheLastLookCouldHardlyDecide) {
  // SD 2 % against δ 0.5 %: at 16 pairs the interval is ± 1.3 %, so nothing near 0 can be called.
  const auto pairs = spread(12, 0.001, 0.02);
  const AbRule rule{.delta = 0.005, .aa_sd = 0.02};
  const auto stopped = decide_pairs(pairs, rule);
  EXPECT_EQ(stopped.decision, AbDecision::inconclusive);
  EXPECT_EQ(stopped.reason, "underpowered");
  EXPECT_TRUE(stopped.futile);
  EXPECT_LE(stopped.pairs, 12);
  EXPECT_GT(stopped.n_to_decide, 16);
  const auto going_on =
      decide_pairs(pairs, {.delta = 0.005, .aa_sd = 0.02, .stop_when_futile = false});
  EXPECT_EQ(going_on.decision, AbDecision::next_look);
  EXPECT_TRUE(going_on.futile);
}

TEST(DecidePairs, TheLastLookWithoutADecisionIsUnderpowered) {
  const auto look =
      decide_pairs(spread(16, -0.009, 0.01), {.delta = 0.005, .stop_when_futile = false});
  EXPECT_EQ(look.decision, AbDecision::inconclusive);
  EXPECT_EQ(look.reason, "underpowered");
  EXPECT_EQ(look.pairs, 16);
  EXPECT_EQ(look.next_pairs, 0);
  EXPECT_GT(look.n_to_decide, 16);
}

TEST(DecidePairs, AFailedRunAbortsTheComparison) {
  auto pairs = spread(8, -0.008, 0.005);
  pairs[5] = std::nan("");
  const auto look = decide_pairs(pairs, {.delta = 0.005});
  EXPECT_EQ(look.decision, AbDecision::inconclusive);
  EXPECT_EQ(look.reason, "aborted");
}

TEST(DecidePairs, ADeltaNeedsMeasuredNoise) {
  EXPECT_FALSE(ab_rule(0).ok());
  EXPECT_FALSE(ab_rule(std::nan("")).ok());
  ASSERT_TRUE(ab_rule(0.01).ok());
  EXPECT_DOUBLE_EQ(ab_rule(0.01)->delta, 0.010655);
}

TEST(DecidePairs, TheLookSurvivesItsRecord) {
  const auto look = decide_pairs(spread(4, -0.05, 0.001), {.delta = 0.005});
  const auto back = from_json<AbLook>(to_json(look));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->decision, AbDecision::faster);
  EXPECT_EQ(to_json(*back), to_json(look));
  for (const auto decision : {AbDecision::next_look, AbDecision::faster, AbDecision::slower,
                              AbDecision::equivalent, AbDecision::inconclusive})
    EXPECT_EQ(ab_decision_from_string(to_string(decision)), decision);
}

TEST(SampleSize, MatchesTheNormalFormulaForManySamples) {
  // (1.960 + 1.282)² · (0.1 / 0.01)² = 1051 and a little for Student's t.
  const auto n = samples_to_decide(
      -0.02, 0.1, {.delta = 0.01, .conclusive_confidence = 0.95, .equivalent_confidence = 0.90});
  EXPECT_NEAR(static_cast<double>(n), 1053, 1);
  EXPECT_EQ(samples_to_decide(0.01, 0.1, {.delta = 0.01, .conclusive_confidence = 0.95}),
            kMostSamples);
  EXPECT_EQ(samples_to_decide(0.05, 0, {.delta = 0.01, .fewest = 6}), 6);
}

TEST(Power, IsTheErrorRateAtTheBoundAndGrowsWithTheEffect) {
  EXPECT_NEAR(power_beyond(0.01, 0.01, 0.02, 16, 2.131), 0.025, 2e-4);
  EXPECT_GT(power_beyond(0.02, 0.01, 0.01, 16, 2.131), 0.95);
  EXPECT_NEAR(power_beyond(0.01, 0.005, 1e-6, 16, 2.63), 1, 1e-12);
}

TEST(Order, IsAbbaThenBaab) {
  std::string text;
  for (const Arm arm : abba_order(8)) text += arm == Arm::baseline ? 'A' : 'B';
  EXPECT_EQ(text, "ABBABAABABBABAAB");
}

TEST(Order, EveryBlockCancelsALinearDrift) {
  const auto order = abba_order(16);
  for (size_t block = 0; block < order.size(); block += 4) {
    int balance = 0;
    for (size_t run = block; run < block + 4; ++run)
      balance += (order[run] == Arm::candidate ? 1 : -1) * static_cast<int>(run);
    EXPECT_EQ(balance, 0) << block;
  }
}

TEST(BlockStop, NeedsThirtyBlocksAndANarrowMedian) {
  const BlockLimits limits{.delta = 0.02, .cap_seconds = 1};
  const auto narrow = spread(30, -0.03, 0.002);
  EXPECT_EQ(block_stop(narrow, 0.1, limits).why, "precise");
  EXPECT_FALSE(block_stop(std::span(narrow).first(29), 0.1, limits).stop);
  const auto wide = spread(30, -0.03, 0.05);
  EXPECT_FALSE(block_stop(wide, 0.1, limits).stop);
  EXPECT_EQ(block_stop(wide, 1.0, limits).why, "cap");
  // 30 values 0, 1, … in steps of δ/40: ranks 10 and 21 are 11 steps apart, just over δ/4.
  std::vector<double> ladder(30);
  for (size_t i = 0; i < 30; ++i) ladder[i] = static_cast<double>(i) * 0.02 / 40;
  EXPECT_FALSE(block_stop(ladder, 0.1, limits).stop);
  for (double& x : ladder) x *= 9.9 / 11;
  EXPECT_TRUE(block_stop(ladder, 0.1, limits).stop);
}

TEST(ProcessLogRatio, IsTheDifferenceOfMedianLogs) {
  const std::vector<double> a = {1, 2, 400}, b = {1, 1, 900};
  EXPECT_NEAR(process_log_ratio(a, b), -std::log(2), 1e-15);
  EXPECT_NEAR(block_log_ratio(2, 1, 1, 2), -std::log(2), 1e-15);
  // A drift by the same factor per run cancels inside a block.
  EXPECT_NEAR(block_log_ratio(1, 1.1, 1.21, 1.331), 0, 1e-15);
}

TEST(ControlCheck, FlagsAChampionThatTheCandidateSlowedDown) {
  const auto beside = spread(10, std::log(1.05), 0.002);
  const auto alone = spread(3, 0, 0.002);
  EXPECT_TRUE(check_controls(beside, alone, 0.01).disturbed);
  EXPECT_FALSE(check_controls(spread(10, 0.001, 0.002), alone, 0.01).disturbed);
  EXPECT_FALSE(check_controls(beside, std::vector<double>{0.0}, 0.01).disturbed);
}

TEST(Amdahl, PredictsTheStepFromTheSeam) {
  // Half the step, twice as fast: the step takes 75 %.
  EXPECT_NEAR(amdahl_log_ratio(std::log(0.5), 0.5), std::log(0.75), 1e-15);
  EXPECT_DOUBLE_EQ(amdahl_log_ratio(-0.3, 0), 0);
  EXPECT_NEAR(amdahl_log_ratio(-0.3, 1), -0.3, 1e-15);
}

TEST(Amdahl, WarnsWhenTheStepGainedMoreThanTwiceOrLessThanHalf) {
  const auto around = [](double x, double half) { return Interval{x, x - half, x + half, 0.95}; };
  const auto bench = around(std::log(0.5), 0.02);
  const double predicted = amdahl_log_ratio(std::log(0.5), 0.1);
  EXPECT_FALSE(amdahl_check(bench, 0.1, around(predicted * 1.9, 0.001)).warn);
  EXPECT_TRUE(amdahl_check(bench, 0.1, around(predicted * 2.1, 0.001)).warn);
  EXPECT_FALSE(amdahl_check(bench, 0.1, around(predicted * 0.55, 0.001)).warn);
  EXPECT_TRUE(amdahl_check(bench, 0.1, around(predicted * 0.45, 0.001)).warn);
  EXPECT_TRUE(amdahl_check(bench, 0.1, around(-predicted, 0.001)).warn);
  // Too wide to contradict the prediction.
  EXPECT_FALSE(amdahl_check(bench, 0.1, around(0.001, 0.06)).warn);
}

}  // namespace
}  // namespace kl::stats
