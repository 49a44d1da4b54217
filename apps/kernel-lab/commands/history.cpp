#include "records.hpp"
#include "session.hpp"

#include <lab/core/hash.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/history.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

std::string verdict_text(const EvidenceLine& line) {
  std::string text = fmt::format("{} {}", line.event_type, line.status);
  if (line.metric_name == "time_ratio" && line.metric_value) text += fmt::format(" ×{:.3f}", *line.metric_value);
  if (line.metric_name == "speed_up" && line.metric_value) text += " " + percent_text(*line.metric_value);
  return text;
}

}  // namespace

Command command_history() {
  auto workspace = std::make_shared<std::string>();
  Command command;
  command.name = "history";
  command.summary = "every source that was verified here, with its verdicts";
  command.examples = {"history --workspace mine", "history --workspace mine --json"};
  command.flags = [workspace](CLI::App& app) {
    app.add_option("--workspace", *workspace, "workspace folder")->required()->type_name("DIR");
  };
  command.run = [workspace](Context& context) -> Result<Answer> {
    const Catalogue catalogue = Catalogue::search(context.target_path);
    KL_TRY(const Workspace opened, open_workspace(*workspace, catalogue));
    KL_TRY(const Target target, catalogue.find(opened.record.target));
    KL_TRY(const LedgerReading reading, Ledger(context.ledger).query({.target = target.key, .engine = opened.record.engine}));
    HistoryRequest request{target.key, opened.record.engine, opened.folder.string(), ""};
    if (const auto champion = target.champion(*context.engine)) {
      KL_TRY(request.champion_hash, sha256_file(*champion));
    }
    HistoryRecord record = new_record<HistoryRecord>();
    record.engine = opened.record.engine;
    record.target = target.key;
    record.workspace = opened.folder.string();
    record.status = Status::ok;
    if (auto hash = sha256_file(opened.kernel()); hash.ok()) record.present = *hash;
    record.sources = history(reading.events, request, context.objects());

    Answer answer;
    answer.record = to_json(record);
    Table table({"source", "first seen (UTC)", "verdicts", ""});
    for (const auto& entry : record.sources) {
      std::string verdicts;
      for (const auto& line : entry.verdicts) verdicts += (verdicts.empty() ? "" : ", ") + verdict_text(line);
      std::string mark = entry.kernel == record.present ? "in the workspace" : "";
      if (entry.is_champion) mark += mark.empty() ? "champion" : ", champion";
      table.row({short_hash(entry.kernel), entry.first_seen.substr(0, 19), verdicts, mark});
    }
    answer.text = table.empty() ? "nothing was verified here yet\n" : table.text(context.style);
    answer.next = command_line(context, table.empty() ? fmt::format("verify --workspace {} --quick", shell_word(*workspace))
                                                      : fmt::format("diff --workspace {} HASH", shell_word(*workspace)));
    return answer;
  };
  return command;
}

}  // namespace kl::app
