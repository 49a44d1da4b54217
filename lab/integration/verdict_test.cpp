#include <lab/integration/verdict.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace kl {
namespace {

using stats::AbDecision;

Gate good() { return {.ran = true, .passed = true}; }
Gate bad() { return {.ran = true, .passed = false, .text = "broken"}; }

VerdictInput faster_and_sound() {
  VerdictInput input;
  input.gates = {good(), good(), good(), good(), good()};
  input.look.decision = AbDecision::faster;
  input.mean_log_total = -0.05;
  return input;
}

struct Row {
  const char* name;
  std::function<void(VerdictInput&)> change;
  Status status;
  const char* reason;
};

TEST(IntegrationVerdict, table) {
  const std::vector<Row> rows = {
      {"sound and faster", [](VerdictInput&) {}, Status::validated, ""},
      {"slower", [](VerdictInput& v) { v.look.decision = AbDecision::slower; }, Status::regressed, "slower"},
      {"equivalent", [](VerdictInput& v) { v.look.decision = AbDecision::equivalent; }, Status::equivalent, "equivalent"},
      {"out of looks", [](VerdictInput& v) { v.look.decision = AbDecision::next_look; }, Status::inconclusive, "underpowered"},
      {"underpowered", [](VerdictInput& v) { v.look.decision = AbDecision::inconclusive; v.look.reason = "underpowered"; },
       Status::inconclusive, "underpowered"},
      {"noisy", [](VerdictInput& v) { v.look.decision = AbDecision::inconclusive; v.look.reason = "noisy-platform"; },
       Status::inconclusive, "noisy-platform"},
      {"stalls", [](VerdictInput& v) { v.mean_log_total = 0.01; }, Status::inconclusive, "noisy-platform"},
      {"L0 broken", [](VerdictInput& v) { v.gates.l0 = bad(); }, Status::regressed, "l0-failed"},
      {"L0 broken by the abort", [](VerdictInput& v) { v.gates.l0 = bad(); v.failure = "aborted"; }, Status::regressed, "l0-failed"},
      {"L1 broken", [](VerdictInput& v) { v.gates.l1 = bad(); }, Status::regressed, "l1-failed"},
      {"L1 broken beats slower", [](VerdictInput& v) { v.gates.l1 = bad(); v.look.decision = AbDecision::slower; },
       Status::regressed, "l1-failed"},
      {"L2 broken", [](VerdictInput& v) { v.gates.l2 = bad(); }, Status::inconclusive, "maths-changed"},
      {"L2 broken and equivalent", [](VerdictInput& v) { v.gates.l2 = bad(); v.look.decision = AbDecision::equivalent; },
       Status::equivalent, "equivalent"},
      {"memory", [](VerdictInput& v) { v.gates.memory = bad(); }, Status::mixed, "memory"},
      {"calls unproved", [](VerdictInput& v) { v.gates.calls = bad(); }, Status::inconclusive, "gates-not-run"},
      {"calls unproved beat L1", [](VerdictInput& v) { v.gates.calls = bad(); v.gates.l1 = bad(); },
       Status::inconclusive, "gates-not-run"},
      {"L0 not run", [](VerdictInput& v) { v.gates.l0 = {}; }, Status::inconclusive, "gates-not-run"},
      {"L1 not run", [](VerdictInput& v) { v.gates.l1 = {}; }, Status::inconclusive, "gates-not-run"},
      {"L2 not run", [](VerdictInput& v) { v.gates.l2 = {}; }, Status::inconclusive, "gates-not-run"},
      {"memory not known", [](VerdictInput& v) { v.gates.memory = {}; }, Status::inconclusive, "gates-not-run"},
      {"L1 not run and slower", [](VerdictInput& v) { v.gates.l1 = {}; v.look.decision = AbDecision::slower; },
       Status::regressed, "slower"},
      {"reduced precision", [](VerdictInput& v) { v.maths = MathsClass::reduced_precision; },
       Status::inconclusive, "loss-underpowered"},
      {"approximate", [](VerdictInput& v) { v.maths = MathsClass::approximate; }, Status::inconclusive, "loss-underpowered"},
      {"aborted", [](VerdictInput& v) { v.failure = "aborted"; }, Status::inconclusive, "aborted"},
      {"two machines", [](VerdictInput& v) { v.failure = "fingerprint-mismatch"; }, Status::inconclusive, "fingerprint-mismatch"},
  };
  for (const auto& row : rows) {
    auto input = faster_and_sound();
    row.change(input);
    const auto verdict = integration_verdict(input);
    EXPECT_EQ(verdict.status, row.status) << row.name;
    EXPECT_EQ(verdict.reason, row.reason) << row.name;
  }
}

TEST(IntegrationVerdict, an_undecided_one_says_how_many_pairs_would_decide) {
  auto input = faster_and_sound();
  input.look.decision = AbDecision::next_look;
  input.look.n_to_decide = 12;
  input.max_pairs = 8;
  const auto verdict = integration_verdict(input);
  EXPECT_EQ(verdict.n_needed, 12);
  EXPECT_NE(verdict.remedy.find("--pairs 12"), std::string::npos) << verdict.remedy;
  // The flag is a number of pairs that there is a look at.
  input.look.n_to_decide = 6;
  input.max_pairs = 4;
  EXPECT_EQ(integration_verdict(input).remedy, "about 6 pairs would decide: --pairs 8");
}

}  // namespace
}  // namespace kl
