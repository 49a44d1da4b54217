#include <lab/report/integration_text.hpp>

#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verdict.hpp>

#include <fmt/format.h>

#include <cmath>

namespace kl {
namespace {

void gate_row(Table& table, const Style& style, const char* name, const Gate& gate) {
  table.row({name, !gate.ran ? style.warn("not run") : gate.passed ? style.good("pass") : style.bad("fail"), gate.text});
}

}  // namespace

std::string integration_text(const IntegrationRecord& record, const Style& style) {
  std::string text = fmt::format("{} {} in the trainer, preset {}, against the {} (seed {})\n",
                                 style.bold("integration-ab"), record.target, or_none(record.preset), record.against, record.seed);
  if (!record.pairs.empty()) {
    Table pairs({">pair", "order", ">baseline step", ">candidate step", ">difference"});
    for (const auto& pair : record.pairs)
      pairs.row({count_text(pair.index + 1), pair.order, duration_text(pair.baseline.step_ns * 1e-9),
                 duration_text(pair.candidate.step_ns * 1e-9), percent_text(std::expm1(pair.log_ratio))});
    text += pairs.text(style);
    text += fmt::format("  speed-up {} in [{}, {}] after {} pairs of {} steps; SD {}, δ_eff {}\n",
                        percent_text(record.look.speed_up), percent_text(record.look.speed_up_low),
                        percent_text(record.look.speed_up_high), record.look.pairs, record.steps_per_leg,
                        share_text(record.look.sd, 2), share_text(record.look.delta, 2));
    text += fmt::format("  throughput {:.0f} → {:.0f} tokens/s; power to see 1 %: {}; lines +{} −{}\n",
                        record.baseline_tokens_per_s, record.candidate_tokens_per_s,
                        share_text(record.look.power_at_1_percent, 0), record.lines.added, record.lines.removed);
    Table gates({"gate", "", ""});
    gate_row(gates, style, "candidate ran", record.gates.calls);
    gate_row(gates, style, "L0 finite", record.gates.l0);
    gate_row(gates, style, "L1 replay", record.gates.l1);
    gate_row(gates, style, "L2 divergence", record.gates.l2);
    gate_row(gates, style, "memory", record.gates.memory);
    text += gates.text(style);
    if (record.amdahl)
      text += fmt::format("  Amdahl: the bench predicts {} of the step, seen {}{}\n",
                          percent_text(std::expm1(record.amdahl->predicted_log_ratio)),
                          percent_text(std::expm1(record.amdahl->seen_log_ratio)),
                          record.amdahl->warn ? style.warn(" (off by more than 2×: look for side effects)") : "");
  }
  for (const auto& notice : record.notices) text += fmt::format("  note: {}\n", notice);
  const std::string& sentence = record.explanation.empty() ? record.reason : record.explanation;
  return text + verdict_line(style, record.status, sentence, record.remedy);
}

std::string suite_text(const SuiteRecord& suite, const Style& style) {
  std::string text = fmt::format("{} {} in the trainer on {} presets, against the {}\n", style.bold("integration-suite"), suite.target,
                                 suite.rows.size(), suite.against);
  Table table({"preset", "verdict", ">speed-up", ">95 % from", ">to", ">pairs", ""});
  const auto percent = [](const std::optional<double>& value) { return value ? percent_text(*value) : std::string("–"); };
  for (const SuiteRow& row : suite.rows)
    table.row({row.preset, std::string(to_string(row.status)), percent(row.speed_up), percent(row.speed_up_low), percent(row.speed_up_high),
               count_text(row.pairs), row.counts ? row.explanation : "does not count: " + row.explanation});
  return text + table.text(style) + verdict_line(style, suite.status, suite.explanation, suite.remedy);
}

std::string aa_text(const AaRecord& record, const Style& style) {
  std::string text = fmt::format("{} preset {}: the trainer against itself\n", style.bold("A/A"), record.preset);
  if (!record.log_ratios.empty()) {
    text += fmt::format("  {} pairs of {} steps ({} a leg, {} a step, {:.0f} tokens/s)\n", record.log_ratios.size(),
                        record.steps_per_leg, duration_text(record.leg_seconds),
                        duration_text(record.step_ns * 1e-9), record.tokens_per_s);
    text += fmt::format("  SD of pairs {}; smallest effect an A/B can decide here: {}\n",
                        share_text(record.s_aa, 2), share_text(record.delta_eff, 2));
    Table shares({"seam", ">share of the step"});
    for (const auto& [seam, share] : record.seam_share) shares.row({seam, share_text(share)});
    text += shares.text(style);
  }
  return text;
}

}  // namespace kl
