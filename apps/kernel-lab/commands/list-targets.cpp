#include "command.hpp"
#include "records.hpp"
#include "session.hpp"

#include <lab/report/table.hpp>
#include <lab/target/target.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string status, preset;
};

// What one preset does with the seams. Without a preset nothing is known, and nothing is shown.
struct PresetSeams {
  std::string preset;
  std::vector<TrainerSeam> seams;
};

Result<PresetSeams> seams_of_preset(const Context& context, const std::string& preset) {
  PresetSeams known;
  KL_TRY(known.preset, choose_preset(context, preset, ""));
  KL_TRY(known.seams, TrainerClient(TrainerClient::builtin()).seams(known.preset));
  return known;
}

TargetLine line_of(const Target& target, const Engine& engine, const PresetSeams& known) {
  TargetLine line{.key = target.key,
                  .aliases = target.aliases,
                  .status = target.status(engine),
                  .metric = std::string(kWorkspaceMetric),
                  .seam = target.seam,
                  .path = "",
                  .opened_by = {},
                  .families = target.families,
                  .title = target.title,
                  .folder = target.folder.string()};
  if (target.seam.empty() || known.preset.empty()) return line;
  const TrainerSeam* seam = seam_of(known.seams, target);
  line.path = seam == nullptr ? "absent" : seam->on_path() ? "runs" : "shadowed";
  if (line.path == "shadowed") line.opened_by = *seam->opened_by;
  return line;
}

std::string seam_text(const TargetLine& line) {
  if (line.seam.empty()) return "–";
  return line.path == "runs" || line.path.empty() ? line.seam : line.seam + " (" + line.path + ")";
}

Result<Answer> list_targets(const Context& context, const Flags& flags) {
  const Catalogue catalogue = Catalogue::search(context.target_path);
  // The list itself needs no trainer: only who names a preset must have one that answers.
  PresetSeams known;
  if (!flags.preset.empty() || context.engine->usable().ok()) {
    auto asked = seams_of_preset(context, flags.preset);
    if (!asked.ok() && !flags.preset.empty()) return asked.error();
    if (asked.ok()) known = std::move(*asked);
  }
  Answer answer;
  TargetList record = new_record<TargetList>();
  record.engine = context.engine->name();
  record.preset = known.preset;
  record.status = Status::ok;
  Table table({"target", "status", "seam", "description"});
  bool shadowed = false;
  for (const auto& target : catalogue.targets()) {
    TargetLine line = line_of(target, *context.engine, known);
    if (!flags.status.empty() && line.status != flags.status) continue;
    shadowed |= line.path == "shadowed";
    table.row({line.key, line.status, seam_text(line), line.title});
    record.targets.push_back(std::move(line));
  }
  answer.text = table.text(context.style);
  if (shadowed)
    answer.text += fmt::format("shadowed: preset {} runs that region another way; integration-ab opens the seam in both arms\n",
                               known.preset);
  for (const auto& error : catalogue.broken()) {
    record.broken.push_back({error.what, error.remedy});
    answer.text += context.style.warn("broken: ") + error.what + "\n";
  }
  answer.record = to_json(record);
  if (!record.targets.empty()) answer.next = command_line(context, "profile   (ranks them by expected gain)");
  return answer;
}

}  // namespace

Command command_list_targets() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "list-targets";
  command.summary = "every target: key, status, metric, seam, description";
  command.examples = {"list-targets", "list-targets --preset cpu-balanced", "--engine cuda list-targets --json"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--status", flags->status, "only targets of this status (no value: all)")
        ->expected(0, 1)->type_name("[STATUS]")
        ->check(CLI::IsMember({"", "starter-ready", "trace-ready", "no-starter"}));
    app.add_option("--preset", flags->preset, "whose path the seams are shown for (default: calibrated)")
        ->type_name("NAME");
  };
  command.run = [flags](Context& context) { return list_targets(context, *flags); };
  return command;
}

}  // namespace kl::app
