#include <lab/bench/verdict.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kl {
namespace {

// One call slot; times in nanoseconds are what the functions say, with `noise` log-normal scatter
// inside a process and `between` from process to process (shared by both arms).
struct Machine {
  double baseline_ns = 1'000'000;
  double candidate_ratio = 1;
  double beside_shift = 1;  // the baseline's time beside the candidate, of what it is alone
  double noise = 0.02;
  double between = 0.0;
  double overhead_ns = 15'000;
  double hidden_ns = 0;     // of the candidate, missing from the worker's clock
  double elsewhere_ns = 0;  // processor time of the candidate outside the parent's bracket
  double threads_used = 2;  // processor time per nanosecond of the kernel
  double command_ns = 0;    // processor time of a command, whoever runs
  double waiting_ns = 0;    // of the baseline, without a processor: others had it
  int processes = 6, controls = 2, blocks = 30;
  uint64_t seed = 1;
};

BenchSamples simulate(const Machine& m) {
  std::mt19937_64 random(m.seed);
  std::normal_distribution<double> normal;
  BenchSamples samples;
  samples.slots = {"forward"};
  samples.calls_per_step = {3};
  samples.threads = 2;
  for (int i = 0; i < m.processes + m.controls; ++i) {
    ProcessSeries p;
    p.index = i;
    p.control = i < m.controls;
    const double level = std::exp(m.between * normal(random));
    for (ArmSeries* arm :
         {&p.baseline_cold, &p.candidate_cold, &p.baseline_warm, &p.candidate_warm}) {
      arm->worker_ns.resize(1);
      arm->parent_ns.resize(1);
      arm->processor_ns.resize(1);
      const bool candidate = arm == &p.candidate_cold || arm == &p.candidate_warm;
      double ns = m.baseline_ns * level;
      if (!p.control) ns *= candidate ? m.candidate_ratio : m.beside_shift;
      for (int letter = 0; letter < 2 * m.blocks; ++letter) {
        const double truth = ns * std::exp(m.noise * normal(random));
        const double hidden = candidate && !p.control ? m.hidden_ns : 0;
        const double waiting = candidate && !p.control ? 0 : m.waiting_ns;
        arm->worker_ns[0].push_back(std::llround(truth - hidden + waiting));
        const double elsewhere = candidate && !p.control ? m.elsewhere_ns : 0;
        arm->processor_ns[0].push_back(
            std::llround(m.threads_used * truth - hidden + elsewhere + m.command_ns));
        arm->parent_ns[0].push_back(
            std::llround(truth + waiting + m.overhead_ns * std::exp(0.3 * normal(random))));
      }
    }
    samples.processes.push_back(std::move(p));
  }
  return samples;
}

SeriesVerdict judge(const Machine& machine) {
  return judge_series(simulate(machine), stats::kBenchQuick);
}

TEST(SeriesVerdict, ALargeImprovementIsImprovedAndItsRatioIsTheTrueOne) {
  const auto verdict = judge({.candidate_ratio = 0.8});
  EXPECT_EQ(verdict.status, Status::improved) << verdict.reason << verdict.proof;
  EXPECT_NEAR(std::exp(verdict.cold.mean_log_ratio), 0.8, 0.01);
  EXPECT_EQ(verdict.samples_needed, 0);
}

// Medians of each arm by itself would say 10 → 7 here, beside a ratio of more than 2.
TEST(SeriesVerdict, TheTwoArmsFiguresHaveTheRatioThatDecides) {
  BenchSamples samples = simulate({.noise = 0, .controls = 0});
  const double baseline[] = {10, 10, 10, 10, 1, 1}, candidate[] = {7, 7, 7, 7, 20, 20};
  for (size_t i = 0; i < samples.processes.size(); ++i) {
    ProcessSeries& p = samples.processes[i];
    for (const auto& [arm, ns] : {std::pair{&p.baseline_cold, baseline[i]}, {&p.candidate_cold, candidate[i]},
                                  {&p.baseline_warm, baseline[i]}, {&p.candidate_warm, candidate[i]}})
      for (int64_t& one : arm->worker_ns[0]) one = std::llround(1e5 * ns);
  }
  const auto verdict = judge_series(samples, stats::kBenchQuick);
  EXPECT_GT(verdict.cold.mean_log_ratio, 0.7);
  EXPECT_NEAR(std::log(verdict.candidate_cold_ns / verdict.baseline_cold_ns), verdict.cold.mean_log_ratio, 1e-9);
  EXPECT_NEAR(std::log(verdict.candidate_warm_ns / verdict.baseline_warm_ns), verdict.warm.mean_log_ratio, 1e-9);
}

TEST(SeriesVerdict, ASlowerKernelIsRegressed) {
  EXPECT_EQ(judge({.candidate_ratio = 1.3}).status, Status::regressed);
}

TEST(SeriesVerdict, TheSameKernelOnAQuietMachineIsEquivalent) {
  EXPECT_EQ(judge({}).status, Status::equivalent);
}

TEST(SeriesVerdict, TheSameKernelIsAlmostNeverCalledDifferentOrRejected) {
  int false_verdicts = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto verdict = judge({.noise = 0.1, .between = 0.03, .blocks = 10, .seed = seed});
    if (verdict.status != Status::equivalent && verdict.status != Status::inconclusive)
      ++false_verdicts;
  }
  EXPECT_LE(false_verdicts, 6);
}

TEST(SeriesVerdict, FewerThanSixProcessesGiveNoVerdict) {
  const auto verdict = judge({.candidate_ratio = 0.5, .processes = 5});
  EXPECT_EQ(verdict.status, Status::inconclusive);
  EXPECT_EQ(verdict.reason, "underpowered");
  EXPECT_GE(verdict.samples_needed, 6);
}

TEST(SeriesVerdict, ABaselineThatIsSlowOnlyBesideTheCandidateRejects) {
  const auto verdict = judge({.candidate_ratio = 1.0, .beside_shift = 1.6, .between = 0.02});
  EXPECT_EQ(verdict.status, Status::rejected);
  EXPECT_EQ(verdict.reason, "baseline-disturbed");
  EXPECT_NE(verdict.proof.find("%"), std::string::npos) << verdict.proof;
}

TEST(SeriesVerdict, ShiftedControlsWithinTheScatterDoNotReject) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto verdict = judge({.candidate_ratio = 0.5, .between = 0.08, .seed = seed});
    EXPECT_NE(verdict.status, Status::rejected) << seed << " " << verdict.proof;
    EXPECT_EQ(verdict.status, Status::improved) << seed;  // no shift explains a factor of two
  }
}

TEST(SeriesVerdict, AnEffectNoLargerThanADoubtfulShiftOfTheBaselineStaysUndecided) {
  // Alone the baseline takes 4 % less than beside the candidate, but scatters too much to say so.
  Machine machine{.candidate_ratio = 1.0, .beside_shift = 1.05, .noise = 0.005, .controls = 2};
  BenchSamples samples = simulate(machine);
  for (auto& t : samples.processes[0].baseline_cold.worker_ns[0]) t = t * 107 / 100;
  for (auto& t : samples.processes[0].candidate_cold.worker_ns[0]) t = t * 107 / 100;
  for (auto& t : samples.processes[1].baseline_cold.worker_ns[0]) t = t * 93 / 100;
  for (auto& t : samples.processes[1].candidate_cold.worker_ns[0]) t = t * 93 / 100;
  samples.processes[0].baseline_cold.parent_ns = samples.processes[0].baseline_cold.worker_ns;
  const auto verdict = judge_series(samples, stats::kBenchQuick);
  EXPECT_EQ(verdict.controls.result, "noisy");
  EXPECT_EQ(verdict.status, Status::inconclusive);
  EXPECT_EQ(verdict.reason, "noisy");
  EXPECT_GT(verdict.samples_needed, 6);
}

TEST(SeriesVerdict, TimeMissingFromTheWorkersClockIsForgery) {
  // The kernel takes as long as the baseline, and claims a fifth of it.
  const auto verdict = judge({.hidden_ns = 800'000});
  EXPECT_EQ(verdict.status, Status::rejected);
  EXPECT_EQ(verdict.reason, "forged-timing");
  EXPECT_NEAR(verdict.clocks.hidden_ns_per_call.estimate, 800'000, 20'000);
}

TEST(SeriesVerdict, ProcessorTimeThatNoClockShowsIsForgery) {
  const auto verdict = judge({.candidate_ratio = 0.3, .elsewhere_ns = 1'700'000});
  EXPECT_EQ(verdict.status, Status::rejected);
  EXPECT_EQ(verdict.reason, "forged-timing");
}

// Its twin: a short call on one thread, whose command costs more processor time than the call.
TEST(SeriesVerdict, WhatACommandCostsIsNoProcessorTimeOfTheKernel) {
  const auto verdict = judge(
      {.baseline_ns = 70'000, .candidate_ratio = 0.4, .threads_used = 1, .command_ns = 100'000});
  EXPECT_EQ(verdict.status, Status::improved) << verdict.reason;
}

// Nor is what a baseline waited for a processor that others had, on a busy machine: a long call meets that, a short one not.
TEST(SeriesVerdict, TheTimeABaselineWaitsForAProcessorIsNotHiddenByTheCandidate) {
  const auto verdict = judge({.baseline_ns = 20'000'000, .candidate_ratio = 0.03, .waiting_ns = 30'000'000});
  EXPECT_EQ(verdict.status, Status::improved) << verdict.reason << ": " << verdict.proof;
}

TEST(SeriesVerdict, ASmallerDisagreementOfTheClocksLeavesItUndecided) {
  const auto verdict = judge({.hidden_ns = 200'000});
  EXPECT_EQ(verdict.status, Status::inconclusive);
  EXPECT_EQ(verdict.reason, "clock-disagrees");
}

TEST(SeriesVerdict, AGainThatOnlyTheWorkersClockSeesIsNotOne) {
  const auto verdict = judge({.baseline_ns = 30'000, .hidden_ns = 10'000});
  EXPECT_EQ(verdict.status, Status::inconclusive);
  EXPECT_EQ(verdict.reason, "clock-disagrees");
  // Its twin: the same gain, by both clocks.
  EXPECT_EQ(judge({.baseline_ns = 30'000, .candidate_ratio = 2.0 / 3}).status, Status::improved);
}

TEST(SeriesVerdict, AWorkersTimeLongerThanTheParentsBracketIsImpossible) {
  BenchSamples samples = simulate({});
  samples.processes.back().candidate_cold.parent_ns[0][3] = 10;
  const auto verdict = judge_series(samples, stats::kBenchQuick);
  EXPECT_EQ(verdict.status, Status::rejected);
  EXPECT_EQ(verdict.reason, "forged-timing");
}

TEST(SeriesVerdict, SchedulingOverheadOfTinyCallsIsNotADisagreement) {
  const auto verdict = judge({.baseline_ns = 8'000, .overhead_ns = 30'000, .hidden_ns = 0});
  EXPECT_TRUE(verdict.clocks.agrees);
}

TEST(SeriesVerdict, AnUnstableClockIsNamed) {
  stats::BenchClocks clocks;
  clocks.stable = false;
  const auto verdict = judge_series(simulate({.candidate_ratio = 0.5}), stats::kBenchQuick, clocks);
  EXPECT_EQ(verdict.status, Status::inconclusive);
  EXPECT_EQ(verdict.reason, "unstable-clock");
}

// Two shapes: the step's own, and one beside it that the step's seam time does not hold.
BenchSamples with_other_shape(double step_ratio, double other_ratio, int64_t calls_of_other = 0,
                              double noise = 0.02) {
  BenchSamples samples = simulate({.candidate_ratio = step_ratio});
  const BenchSamples other =
      simulate({.baseline_ns = 100'000, .candidate_ratio = other_ratio, .noise = noise, .seed = 9});
  samples.slots = {"forward C=64", "forward C=7"};
  samples.shapes = {"C=64", "C=7"};
  samples.calls_per_step = {3, calls_of_other};
  for (size_t i = 0; i < samples.processes.size(); ++i)
    for (auto arm : {&ProcessSeries::baseline_cold, &ProcessSeries::candidate_cold,
                     &ProcessSeries::baseline_warm, &ProcessSeries::candidate_warm}) {
      ArmSeries& to = samples.processes[i].*arm;
      const ArmSeries& from = other.processes[i].*arm;
      to.worker_ns.push_back(from.worker_ns[0]);
      to.parent_ns.push_back(from.parent_ns[0]);
      to.processor_ns.push_back(from.processor_ns[0]);
    }
  return samples;
}

TEST(SeriesVerdict, AGainOfTheStepWithACaseThatRegressesIsRegressedAndNamesIt) {
  for (const int64_t calls : {0, 1}) {
    const auto verdict = judge_series(with_other_shape(0.7, 1.2, calls), stats::kBenchQuick);
    EXPECT_EQ(verdict.status, Status::regressed) << calls;
    EXPECT_EQ(verdict.reason, kOtherCaseRegressed);
    EXPECT_NE(verdict.proof.find("C=7"), std::string::npos) << verdict.proof;
    EXPECT_NE(verdict.proof.find(calls == 0 ? "beside the step" : "a shape of the step"),
              std::string::npos)
        << verdict.proof;
  }
}

TEST(SeriesVerdict, ACaseBesideTheStepDoesNotEnterItsNumber) {
  const auto verdict = judge_series(with_other_shape(0.7, 1.0), stats::kBenchQuick);
  EXPECT_EQ(verdict.status, Status::improved) << verdict.reason << verdict.proof;
  EXPECT_NEAR(std::exp(verdict.cold.mean_log_ratio), 0.7, 0.01);
  ASSERT_EQ(verdict.shapes.size(), 2u);
  EXPECT_TRUE(verdict.shapes[0].decides);
  EXPECT_FALSE(verdict.shapes[1].decides);
  EXPECT_NEAR(verdict.shapes[1].ratio, 1.0, 0.02);
}

TEST(SeriesVerdict, ACaseThatOnlyScattersOrLosesLessThanDeltaDoesNotOverturnAGain) {
  EXPECT_EQ(judge_series(with_other_shape(0.7, 1.01), stats::kBenchQuick).status, Status::improved);
  EXPECT_EQ(judge_series(with_other_shape(0.7, 1.02, 0, 0.5), stats::kBenchQuick).status,
            Status::improved);
}

TEST(SeriesVerdict, ARegressedCaseMakesNoGainOutOfAnEqualStep) {
  EXPECT_EQ(judge_series(with_other_shape(1.0, 0.5), stats::kBenchQuick).status,
            Status::equivalent);
}

TEST(SeriesVerdict, TooManyBlocksSetAsideAreAnUnstableClockAndFewAreNot) {
  BenchSamples samples = simulate({.candidate_ratio = 0.5});
  for (ProcessSeries& p : samples.processes) p.set_aside.resize(10);  // beside 30 that count
  EXPECT_EQ(judge_series(samples, stats::kBenchQuick).status, Status::improved);
  for (ProcessSeries& p : samples.processes) p.set_aside.resize(20);
  EXPECT_DOUBLE_EQ(disturbed_share(samples), 0.4);
  const auto verdict = judge_series(samples, stats::kBenchQuick);
  EXPECT_EQ(verdict.status, Status::inconclusive);
  EXPECT_EQ(verdict.reason, "unstable-clock");
}

TEST(Series, AStepWeighsEachSlotByItsCalls) {
  const auto steps = step_ns({{10, 20}, {1, 2}}, {3, 5});
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_DOUBLE_EQ(steps[0], 35);
  EXPECT_DOUBLE_EQ(steps[1], 70);
}

TEST(Series, SamplesCanBeJudgedAgainFromTheirFile) {
  const BenchSamples samples = simulate({.candidate_ratio = 0.7});
  const auto back = from_json<BenchSamples>(to_json(samples));
  ASSERT_TRUE(back.ok()) << back.error().what;
  EXPECT_DOUBLE_EQ(judge_series(*back, stats::kBenchQuick).cold.mean_log_ratio,
                   judge_series(samples, stats::kBenchQuick).cold.mean_log_ratio);
}

}  // namespace
}  // namespace kl
