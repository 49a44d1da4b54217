#include <lab/report/assessment_text.hpp>
#include <lab/report/bench_text.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/integration_text.hpp>
#include <lab/report/promotion_text.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verify_text.hpp>
#include <lab/verify/sanitize.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace kl {
namespace {

TEST(table, columns_line_up_and_numbers_go_right) {
  Table table({"case", ">ms"});
  table.row({"forward", "1.5"});
  table.row({"b", "12.25"});
  EXPECT_EQ(table.text({}),
            "  case        ms\n"
            "  forward    1.5\n"
            "  b        12.25\n");
}

TEST(table, width_counts_letters_not_bytes_or_escapes) {
  EXPECT_EQ(display_width("µs"), 2u);
  EXPECT_EQ(display_width("\x1b[1mbold\x1b[0m"), 4u);
}

TEST(style, nothing_is_decorated_when_switched_off) {
  EXPECT_EQ(Style{false}.status(Status::improved), "improved");
  EXPECT_NE(Style{true}.status(Status::improved), "improved");
}

TEST(figures, are_what_people_read) {
  EXPECT_EQ(duration_text(0.00123), "1.23 ms");
  EXPECT_EQ(duration_text(4.5e-6), "4.5 µs");
  EXPECT_EQ(signed_duration_text(-0.00123), "-1.23 ms");
  EXPECT_EQ(signed_duration_text(0), "+0 ns");
  EXPECT_EQ(percent_text(0.0125), "+1.25 %");
  EXPECT_EQ(percent_text(-0.000001), "+0.00 %");
  EXPECT_EQ(bytes_text(12'345'678), "12.3 MB");
  EXPECT_EQ(count_text(1234567), "1,234,567");
  EXPECT_EQ(count_text(-999), "-999");
}

VerifyRecord verified(Status status) {
  VerifyRecord record;
  record.target = "rmsnorm";
  record.engine = "cpu";
  record.preset = "smoke";
  record.mode = "quick";
  record.seed = 42;
  record.status = status;
  record.cases_planned = 109;
  record.cases_run = 109;
  record.elements_checked = 2933277;
  record.worst_bound_fraction = 0.184;
  record.bitwise_repeatable = true;
  record.compile.compiler = "g++ 12.2.0";
  record.compile.seconds = 1.9;
  record.compile.notes = {"7: vectorized", "8: vectorized", "9: vectorized", "10: vectorized"};
  return record;
}

TEST(verify_text, tells_a_pass) {
  EXPECT_EQ(verify_text(verified(Status::ok), {}),
            "verify rmsnorm on cpu (quick, preset smoke, seed 42)\n"
            "  compiled in 1.9 s by g++ 12.2.0\n"
            "  line 7: vectorized\n"
            "  line 8: vectorized\n"
            "  line 9: vectorized\n"
            "  … 1 more compiler notes in --json\n"
            "  cases   109 of 109 run, 2,933,277 elements compared with the oracle\n"
            "  error   at most 0.184 of its bound; same bits on every call\n"
            "verdict: ok: 109 cases, 2,933,277 elements, worst error 0.18 of its bound\n");
}

TEST(verify_text, tells_a_mismatch_with_the_element_and_the_bound) {
  VerifyRecord record = verified(Status::mismatch);
  record.compile = {};
  record.cases_run = 12;
  record.elements_checked = 1000;
  record.worst_bound_fraction = 250;
  record.failing = FailingElement{"N=3 C=65 f32 normal", "forward", "y", {2, 64}, 0.5, 0.75, "0.75", 0.001};
  record.remedy = "look at how the end of a row is handled";
  EXPECT_EQ(verify_text(record, {}),
            "verify rmsnorm on cpu (quick, preset smoke, seed 42)\n"
            "  cases   12 of 109 passed before the one that failed, 1,000 elements compared with the oracle\n"
            "  error   at most 250.000 of its bound\n"
            "  wrong   y[2, 64] of forward in case N=3 C=65 f32 normal\n"
            "          got 0.75, expected 0.5, allowed ±0.001\n"
            "verdict: mismatch: y of forward is wrong at [2, 64] in case N=3 C=65 f32 normal\n"
            "         look at how the end of a row is handled\n");
}

TEST(verify_text, tells_what_the_compiler_said) {
  VerifyRecord record = verified(Status::build_failed);
  record.compile = {};
  record.cases_planned = record.elements_checked = 0;
  record.rule = "build-failed";
  record.reason = "mine/kernel.cpp does not compile:\nmine/kernel.cpp:3:1: error: expected ';'\n";
  record.remedy = "correct the source and run the same command again";
  EXPECT_EQ(verify_text(record, {}),
            "verify rmsnorm on cpu (quick, preset smoke, seed 42)\n"
            "verdict: build-failed: mine/kernel.cpp does not compile:\n"
            "mine/kernel.cpp:3:1: error: expected ';'\n"
            "         correct the source and run the same command again\n");
}

TEST(verify_text, tells_a_broken_rule_by_its_name_and_proof) {
  VerifyRecord record = verified(Status::rejected);
  record.compile = {};
  record.cases_planned = record.elements_checked = 0;
  record.rule = "forbidden-symbol";
  record.proof = "fork";
  EXPECT_EQ(verify_text(record, {}),
            "verify rmsnorm on cpu (quick, preset smoke, seed 42)\n"
            "verdict: rejected: forbidden-symbol: fork\n");
}

TEST(verify_text, tells_which_shapes_were_declined_and_why) {
  VerifyRecord record = verified(Status::ok);
  record.compile = {};
  for (const char* name : {"a", "b", "c", "d"})
    record.details["declined"].push_back({{"case", std::string("strided ") + name}, {"why", "x must be packed"}});
  EXPECT_EQ(verify_text(record, {}),
            "verify rmsnorm on cpu (quick, preset smoke, seed 42)\n"
            "  cases   109 of 109 run, 2,933,277 elements compared with the oracle\n"
            "  declined 4 shapes, left to the champion\n"
            "          strided a: x must be packed\n"
            "          strided b: x must be packed\n"
            "          strided c: x must be packed\n"
            "          … 1 more in --json\n"
            "  error   at most 0.184 of its bound; same bits on every call\n"
            "verdict: ok: 109 cases, 2,933,277 elements, worst error 0.18 of its bound\n");
}

TEST(verify_text, tells_what_the_sanitizers_came_to) {
  VerifyRecord record = verified(Status::ok);
  record.compile = {};
  SanitizeReport report;
  report.proof = "compute-sanitizer is not there";
  report.remedy = "install it";
  record.details["sanitize"] = to_json(report);
  EXPECT_NE(verify_text(record, {}).find("  under   no sanitizer (missing-tool): compute-sanitizer is not there\n"
                                         "          install it\n"),
            std::string::npos)
      << verify_text(record, {});
  report.status = Status::ok;
  report.tools = {"memcheck", "initcheck"};
  report.cases = 7;
  record.details["sanitize"] = to_json(report);
  EXPECT_NE(verify_text(record, {}).find("  under   memcheck, initcheck: nothing found in 7 cases\n"), std::string::npos)
      << verify_text(record, {});
}

BenchRecord benched(Status status) {
  BenchRecord record;
  record.target = "rmsnorm";
  record.engine = "cpu";
  record.preset = "smoke";
  record.baseline = "champion";
  record.mode = "quick";
  record.seed = 5;
  record.status = status;
  record.delta = 0.02;
  record.ratio = 0.8;
  record.t95 = {std::log(0.8), std::log(0.75), std::log(0.85), 0.95};
  record.walsh95 = {std::log(0.8), std::log(0.7), std::log(0.9), 0.95};
  record.candidate.cold_ns_per_step = 80e3;
  record.baseline_time.cold_ns_per_step = 100e3;
  BenchCase forward;
  forward.operation = "forward";
  forward.axes = {{"C", 128}, {"N", 512}};
  forward.calls_per_step = 6;
  forward.candidate_cold_ns = 8000;
  forward.candidate_warm_ns = 4500;
  forward.baseline_cold_ns = 10000;
  forward.baseline_warm_ns = 5000;
  forward.candidate_gb_per_s = 65.5;
  forward.candidate_percent_of_ceiling = 82;
  record.cases = {forward};
  record.processes = 6;
  record.blocks = 1200;
  record.timed_calls = 9600;
  record.calls_checked = 960;
  record.controls.result = "agree";
  return record;
}

TEST(bench_text, tells_an_improvement) {
  EXPECT_EQ(bench_text(benched(Status::improved), {}),
            "bench rmsnorm on cpu against the champion (quick, preset smoke, seed 5)\n"
            "  operation  shape        calls/step  champion  candidate  ratio  warm ratio  GB/s  of ceiling\n"
            "  forward    C=128 N=512           6   10.0 µs     8.0 µs  0.800       0.900  65.5        82 %\n"
            "  decides: cold seam time per step, ratio 0.8000; 95 % t [-25.00 %, -15.00 %], signed-rank "
            "[-30.00 %, -10.00 %]; δ 2.0 %\n"
            "  6 processes, 1,200 ABBA blocks, 9,600 timed calls, 960 calls verified; controls: agree\n"
            "verdict: improved: -20.00 % seam time per step against the champion (100.0 µs → 80.0 µs), 95 % "
            "[-25.00 %, -15.00 %]\n");
}

TEST(bench_text, tells_cases_beside_the_step_and_repeated_blocks) {
  BenchRecord record = benched(Status::regressed);
  record.cases.push_back(record.cases[0]);
  record.cases[1].axes = {{"C", 33}, {"N", 128}};
  record.cases[1].calls_per_step = 0;
  record.blocks_set_aside = 3;
  record.reason = record.rule = kOtherCaseRegressed;
  record.proof = "at C=33 N=128 it loses";
  const std::string text = bench_text(record, {});
  EXPECT_NE(text.find("C=33 N=128       beside"), std::string::npos) << text;
  EXPECT_NE(text.find("3 blocks repeated"), std::string::npos) << text;
  EXPECT_NE(text.find("verdict: regressed: other-case-regressed: at C=33 N=128 it loses"), std::string::npos) << text;
}

TEST(bench_text, tells_what_would_decide_an_inconclusive_one) {
  BenchRecord record = benched(Status::inconclusive);
  record.reason = "noisy";
  record.samples_needed = 53;
  EXPECT_EQ(bench_sentence(record),
            "-20.00 % seam time per step against the champion (100.0 µs → 80.0 µs), 95 % [-25.00 %, -15.00 %]; "
            "noisy, 53 processes would decide");
}

IntegrationRecord integrated() {
  IntegrationRecord record;
  record.target = "rmsnorm";
  record.preset = "smoke";
  record.against = "champion";
  record.seed = 1;
  record.status = Status::validated;
  record.explanation = "the step is faster";
  Pair pair;
  pair.index = 0;
  pair.order = "BA";
  pair.baseline.step_ns = 50e6;
  pair.candidate.step_ns = 45e6;
  pair.log_ratio = std::log(0.9);
  record.pairs = {pair};
  record.look.pairs = 4;
  record.look.speed_up = 0.11;
  record.look.speed_up_low = 0.09;
  record.look.speed_up_high = 0.13;
  record.look.sd = 0.004;
  record.look.delta = 0.0055;
  record.look.power_at_1_percent = 0.9;
  record.steps_per_leg = 30;
  record.baseline_tokens_per_s = 10000;
  record.candidate_tokens_per_s = 11100;
  record.lines.added = 12;
  record.lines.removed = 3;
  record.gates.calls = {true, true, "6 of 6 calls a step", 6, 6};
  record.gates.l0 = {true, true, "every loss and gradient norm is finite", 0, 0};
  record.gates.l1 = {true, false, "cosine 0.9 below 0.999", 0.9, 0.999};
  record.gates.memory = {true, true, "+0.1 %", 0.001, 0.02};
  record.amdahl = stats::AmdahlCheck{std::log(0.95), 0, 0, std::log(0.9), 2.05, true};
  record.notices = {"second comparison of this candidate"};
  return record;
}

TEST(integration_text, tells_pairs_interval_gates_and_amdahl) {
  EXPECT_EQ(integration_text(integrated(), {}),
            "integration-ab rmsnorm in the trainer, preset smoke, against the champion (seed 1)\n"
            "  pair  order  baseline step  candidate step  difference\n"
            "     1  BA          50.00 ms        45.00 ms    -10.00 %\n"
            "  speed-up +11.00 % in [+9.00 %, +13.00 %] after 4 pairs of 30 steps; SD 0.40 %, δ_eff 0.55 %\n"
            "  throughput 10000 → 11100 tokens/s; power to see 1 %: 90 %; lines +12 −3\n"
            "  gate\n"
            "  candidate ran  pass     6 of 6 calls a step\n"
            "  L0 finite      pass     every loss and gradient norm is finite\n"
            "  L1 replay      fail     cosine 0.9 below 0.999\n"
            "  L2 divergence  not run\n"
            "  memory         pass     +0.1 %\n"
            "  Amdahl: the bench predicts -5.00 % of the step, seen -10.00 % (off by more than 2×: look for side "
            "effects)\n"
            "  note: second comparison of this candidate\n"
            "verdict: validated: the step is faster\n");
}

TEST(integration_text, without_pairs_is_the_verdict_and_its_remedy) {
  IntegrationRecord record;
  record.target = "own";
  record.preset = "smoke";
  record.against = "champion";
  record.status = Status::needs_integration_adapter;
  record.reason = "no-seam";
  record.remedy = "write an adapter";
  EXPECT_EQ(integration_text(record, {}),
            "integration-ab own in the trainer, preset smoke, against the champion (seed 0)\n"
            "verdict: needs-integration-adapter: no-seam\n"
            "         write an adapter\n");
}

Assessment assessed() {
  Assessment a;
  a.target = "rmsnorm";
  a.engine = "cpu";
  a.preset = "smoke";
  a.candidate_hash = std::string(64, 'a');
  a.state = "verified-only";
  a.answer = "ready-for-integration";
  a.blockers = {"no A/B in the trainer"};
  a.next = {"kernel-lab integration-ab --workspace mine", "whether a training run gets faster"};
  a.notes = {"trace: not-built"};
  a.seam_share = 0.125;
  a.time_ratio = 0.8;
  a.gain_bound = 0.025;
  a.gain_threshold = 0.0055;
  EvidenceLine line;
  line.created_at = "2026-12-01T22:05:53.035705Z";
  line.event_type = "bench";
  line.status = "improved";
  line.metric_name = "time_ratio";
  line.metric_value = 0.8;
  line.preset = "smoke";
  line.kernel = a.candidate_hash;
  a.heuristic = {line};
  line.kernel = std::string(64, 'b');
  line.because = {"another kernel", "another harness"};
  a.stale = {line};
  return a;
}

constexpr const char* kAssessed =
    "rmsnorm on cpu, preset smoke\n"
    "  candidate aaaaaaaaaaaa  champion none\n"
    "  seam share 12.5 % of the step; candidate/champion seam time 0.800; at most 2.50 % of the step to gain, "
    "0.55 % needed\n"
    "  blocker: no A/B in the trainer\n"
    "  note: trace: not-built\n"
    "state: verified-only   answer: ready-for-integration\n"
    "         whether a training run gets faster\n";

TEST(assessment_text, tells_state_answer_and_what_blocks) { EXPECT_EQ(assessment_text(assessed(), {}), kAssessed); }

TEST(assessment_text, evidence_comes_in_groups_with_why_it_does_not_count) {
  EXPECT_EQ(evidence_text(assessed(), {}),
            "heuristic\n"
            "  when (UTC)           event  status    number          preset  kernel        why it does not count\n"
            "  2026-12-01T22:05:53  bench  improved  time_ratio 0.8  smoke   aaaaaaaaaaaa\n"
            "stale\n"
            "  when (UTC)           event  status    number          preset  kernel        why it does not count\n"
            "  2026-12-01T22:05:53  bench  improved  time_ratio 0.8  smoke   bbbbbbbbbbbb  another kernel; another "
            "harness\n" +
                std::string(kAssessed));
  EXPECT_EQ(evidence_text({}, {}).substr(0, 16), "no evidence yet\n");
}

TEST(promotion_text, shows_patch_gain_and_price) {
  PromotionRecord record;
  record.status = Status::patch_ready;
  record.champion = "targets/rmsnorm/kernel.cpp";
  record.preset = "smoke";
  record.verified_cases = 300;
  record.patch = "@@ -1 +1 @@\n-old\n+new\n";
  record.provenance = Provenance{};
  record.provenance->preset = "smoke";
  record.provenance->evidence = {"a", "b"};
  record.provenance->gains = {{"speed_up", 0.11}, {"time_ratio", 0.8}};
  record.provenance->lines_added = 1;
  record.provenance->lines_removed = 1;
  EXPECT_EQ(promotion_text(record, {}),
            "@@ -1 +1 @@\n-old\n+new\n"
            "report\n"
            "  training step   +11.00 % (measured in the trainer, preset smoke)\n"
            "  seam time       -20.00 % per step\n"
            "  price           +1 −1 lines\n"
            "  verified again  300 cases\n"
            "  evidence        2 ledger lines\n"
            "verdict: patch-ready: --apply replaces targets/rmsnorm/kernel.cpp\n");
}

}  // namespace
}  // namespace kl
