#include "records.hpp"
#include "session.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/ledger/upkeep.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  CLI::App* check = nullptr;
  CLI::App* show = nullptr;
  CLI::App* merge = nullptr;
  bool repair = false;
  std::string target, event, status, preset, kernel;
  size_t newest = 20;
  std::vector<std::string> inputs;
  std::string into;
};

std::string health_text(const LedgerHealth& health, const Style& style) {
  std::string text = fmt::format("  {} lines: {} torn, {} corrupt, {} altered, {} of unknown versions\n",
                                 count_text(health.lines), health.torn, health.corrupt, health.altered,
                                 health.unknown_versions);
  for (const auto& problem : health.problems)
    text += fmt::format("  {} {}: {}\n", style.warn(fmt::format("line {}", problem.line)), problem.kind, problem.what);
  return text;
}

int64_t unusable(const LedgerHealth& health) {
  return health.torn + health.corrupt + health.altered + health.unknown_versions;
}

Result<Answer> check(const Context& context, bool repair) {
  Answer answer;
  LedgerHealth health;
  if (repair) {
    KL_TRY(const LedgerRepair done, repair_ledger(context.ledger));
    health = done.before;
    answer.record = to_json(headed(done));
    answer.text = health_text(health, context.style) +
                  fmt::format("  kept {}, moved {} to {}\n", done.kept, done.quarantined,
                              done.quarantine.empty() ? "nowhere" : done.quarantine);
    return answer;
  }
  KL_TRY(health, check_ledger(context.ledger));
  auto record = headed(health, health.clean() ? Status::ok : Status::rejected);
  answer.text = health_text(health, context.style);
  if (!health.clean()) {
    record.reason = fmt::format("{} of {} lines cannot be used", unusable(health), health.lines);
    record.remedy = command_line(context, "ledger check --repair");
    answer.next = record.remedy;
  }
  answer.record = to_json(record);
  answer.exit_code = exit_code_of(record.status);
  return answer;
}

Result<Answer> show(const Context& context, const Flags& flags) {
  LedgerFilter filter{.target = flags.target, .preset = flags.preset, .status = flags.status,
                      .kernel = flags.kernel, .newest = flags.newest};
  if (context.engine_chosen) filter.engine = context.engine->name();
  if (!flags.event.empty()) filter.event_types = {flags.event};
  KL_TRY(const LedgerReading reading, Ledger(context.ledger).query(filter));
  Answer answer;
  LedgerShow record = new_record<LedgerShow>();
  record.engine = filter.engine;
  record.target = flags.target;
  record.preset = flags.preset;
  record.status = Status::ok;
  record.events = reading.events;
  record.health = reading.health;
  answer.record = to_json(record);
  Table table({"when (UTC)", "event", "target", "status", "number", "preset", "kernel", "id"});
  for (const auto& event : reading.events)
    table.row({event.created_at.substr(0, 19), event.event_type, event.target, event.status,
               event.metric_value ? fmt::format("{} {:.4g}", event.metric_name, *event.metric_value) : "",
               event.preset, short_hash(event.identity.kernel), short_hash(event.id)});
  answer.text = table.empty() ? fmt::format("no events in {}\n", context.ledger.string()) : table.text(context.style);
  if (!reading.health.clean()) answer.text += health_text(reading.health, context.style);
  return answer;
}

Result<Answer> merge(const Context& context, const Flags& flags) {
  std::vector<fs::path> inputs(flags.inputs.begin(), flags.inputs.end());
  KL_TRY(const LedgerMerge merged, merge_ledgers(inputs, flags.into.empty() ? context.ledger : fs::path(flags.into)));
  Answer answer;
  answer.record = to_json(headed(merged));
  answer.text = fmt::format("  {} events in {}, {} duplicates left out\n", count_text(merged.events), merged.output,
                            count_text(merged.duplicates));
  if (!merged.set_aside.clean()) answer.text += health_text(merged.set_aside, context.style);
  return answer;
}

Result<Answer> stats(const Context& context) {
  KL_TRY(const LedgerStats found, ledger_stats(context.ledger));
  Answer answer;
  answer.record = to_json(headed(found));
  answer.text = health_text(found.health, context.style);
  answer.text += fmt::format("  {}, {} … {}\n", bytes_text(static_cast<double>(found.size_bytes)),
                             found.first_created_at, found.last_created_at);
  Table table({"", "", ">events"});
  for (const auto& [name, counts] : {std::pair{"event", &found.by_event_type}, {"target", &found.by_target},
                                     {"engine", &found.by_engine}, {"status", &found.by_status}})
    for (const auto& [key, count] : *counts) table.row({name, key.empty() ? "–" : key, count_text(count)});
  answer.text += table.text(context.style);
  return answer;
}

}  // namespace

Command command_ledger() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "ledger";
  command.summary = "verify and repair, show, merge and count the evidence";
  command.examples = {"ledger show --target rmsnorm --newest 5", "ledger check", "ledger check --repair",
                      "ledger merge other/ledger.jsonl third/ledger.jsonl", "ledger stats --json"};
  command.flags = [flags](CLI::App& app) {
    app.require_subcommand(1);
    flags->check = app.add_subcommand("check", "every line parsed, every id checked");
    flags->check->add_flag("--repair", flags->repair, "move bad lines to <ledger>.quarantine");
    flags->show = app.add_subcommand("show", "the newest events that match");
    flags->show->add_option("--target", flags->target, "key")->type_name("KEY");
    flags->show->add_option("--event", flags->event, "event type")->type_name("TYPE");
    flags->show->add_option("--status", flags->status, "outcome")->type_name("STATUS");
    flags->show->add_option("--preset", flags->preset, "trainer operating point")->type_name("NAME");
    flags->show->add_option("--kernel", flags->kernel, "hash of the source, or its first digits")->type_name("HASH");
    flags->show->add_option("--newest", flags->newest, "at most so many; 0: all")->check(whole_number_check(0, 1'000'000'000));
    flags->merge = app.add_subcommand("merge", "the union of several ledgers, by id");
    flags->merge->add_option("ledgers", flags->inputs, "ledger files to take in")->required()->check(CLI::ExistingFile);
    flags->merge->add_option("--into", flags->into, "file to write (default: --ledger)")->type_name("PATH");
    app.add_subcommand("stats", "what a ledger holds");
    for (CLI::App* sub : app.get_subcommands({})) sub->fallthrough();
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    if (flags->check->parsed()) return check(context, flags->repair);
    if (flags->show->parsed()) return show(context, *flags);
    if (flags->merge->parsed()) return merge(context, *flags);
    return stats(context);
  };
  return command;
}

}  // namespace kl::app
