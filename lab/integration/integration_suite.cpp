#include <lab/integration/integration_suite.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kl {
namespace {

bool gates_hold(const Gates& gates) {
  const bool needed = gates.calls.ran && gates.l0.ran && gates.l1.ran;
  for (const Gate* gate : {&gates.calls, &gates.l0, &gates.l1, &gates.l2, &gates.memory})
    if (gate->ran && !gate->passed) return false;
  return needed;
}

// A preset without the seam never calls the candidate; one whose baseline does not run says nothing of it.
bool says_something(const IntegrationRecord& record) {
  return record.status != Status::needs_integration_adapter && !record.baseline_failed;
}

bool is_verdict(Status status) {
  return status == Status::validated || status == Status::regressed || status == Status::mixed ||
         status == Status::equivalent || status == Status::inconclusive;
}
bool broke_a_gate(const SuiteRow& row) { return row.reason == "l0-failed" || row.reason == "l1-failed"; }

}  // namespace

SuiteRow suite_row(const IntegrationRecord& record) {
  SuiteRow row;
  row.preset = record.preset;
  row.status = record.status;
  row.reason = record.reason;
  row.explanation = record.explanation;
  row.remedy = record.remedy;
  row.counts = says_something(record);
  row.pairs = record.look.pairs;
  if (record.pairs.empty()) return row;
  row.speed_up = record.look.speed_up;
  row.speed_up_low = record.look.speed_up_low;
  row.speed_up_high = record.look.speed_up_high;
  row.non_inferior = *row.speed_up_low > kNonInferior && gates_hold(record.gates);
  return row;
}

SuiteVerdict suite_verdict(std::span<const SuiteRow> rows) {
  std::vector<const SuiteRow*> counted;
  for (const SuiteRow& row : rows)
    if (row.counts) counted.push_back(&row);
  if (counted.empty()) return {rows.front().status, rows.front().reason, rows.front().explanation, rows.front().remedy};
  for (const SuiteRow* row : counted)
    if (!is_verdict(row->status)) return {row->status, row->reason, fmt::format("{}: {}", row->preset, row->explanation), row->remedy};
  const auto of = [&](auto&& holds) {
    std::vector<std::string> names;
    for (const SuiteRow* row : counted)
      if (holds(*row)) names.push_back(row->preset);
    return names;
  };
  const auto with = [&](Status status) { return of([status](const SuiteRow& row) { return row.status == status; }); };
  const auto broken = of(broke_a_gate);
  const auto faster = with(Status::validated), slower = with(Status::regressed), mixed = with(Status::mixed);
  const auto text = [](const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); };
  if (!broken.empty())
    return {Status::regressed, "gate-failed", fmt::format("a gate that always holds is broken on {}", text(broken)), "mend the kernel's arithmetic"};
  if (!slower.empty() && !faster.empty())
    return {Status::mixed, "presets-disagree", fmt::format("faster on {}, slower on {}", text(faster), text(slower)),
            "let `accepts` refuse the shapes where it loses; the champion then runs them"};
  if (!slower.empty()) return {Status::regressed, "slower", fmt::format("slower on {}", text(slower)), ""};
  if (!mixed.empty())
    return {Status::mixed, "preset-mixed", fmt::format("mixed on {}", text(mixed)), "its row says what stands against what"};
  const auto unproven = of([](const SuiteRow& row) { return !row.non_inferior; });
  // A primary preset that does not run here cannot be validated by another in its stead.
  const bool primary_faster = rows.front().status == Status::validated;
  if (primary_faster && unproven.empty())
    return {Status::validated, "", fmt::format("faster on {}, worse by 0.5 % on none of {} presets", text(faster), counted.size()), ""};
  if (with(Status::equivalent).size() == counted.size())
    return {Status::equivalent, "", fmt::format("no preset differs by more than its δ_eff: {}", text(with(Status::equivalent))), ""};
  if (primary_faster)
    return {Status::inconclusive, "not-non-inferior", fmt::format("faster on {}, but a loss of 0.5 % is not excluded on {}", rows.front().preset, text(unproven)),
            "more pairs or a quieter machine for that preset"};
  return {Status::inconclusive, "primary-undecided",
          fmt::format("{}, the primary preset, is {}", rows.front().preset, to_string(rows.front().status)), rows.front().remedy};
}

SuiteRecord suite_of(std::vector<IntegrationRecord> records) {
  auto suite = new_record<SuiteRecord>();
  const IntegrationRecord& primary = records.front();
  suite.engine = primary.engine;
  suite.target = primary.target;
  suite.workspace = primary.workspace;
  suite.against = primary.against;
  // Seams and trainer are a preset's own: those identities are in the records.
  suite.identity.fingerprint_class = primary.identity.fingerprint_class;
  for (const IntegrationRecord& record : records) {
    suite.rows.push_back(suite_row(record));
    suite.wall_seconds += record.wall_seconds;
    if (record.kernel_hash.empty()) continue;
    suite.kernel_hash = suite.identity.kernel = record.kernel_hash;
    suite.identity.flags = record.identity.flags;
    suite.identity.baseline = record.identity.baseline;
  }
  const SuiteVerdict verdict = suite_verdict(suite.rows);
  suite.status = verdict.status;
  suite.reason = verdict.reason;
  suite.explanation = verdict.explanation;
  suite.remedy = verdict.remedy;
  suite.records = std::move(records);
  return suite;
}

}  // namespace kl
