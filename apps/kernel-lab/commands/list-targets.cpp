#include "command.hpp"
#include "records.hpp"

#include <lab/report/table.hpp>
#include <lab/target/target.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {

Command command_list_targets() {
  auto status = std::make_shared<std::string>();
  Command command;
  command.name = "list-targets";
  command.summary = "every target: key, status, metric, seam, description";
  command.examples = {"list-targets", "--engine cuda list-targets --json"};
  command.flags = [status](CLI::App& app) {
    app.add_option("--status", *status, "only targets of this status")
        ->check(CLI::IsMember({"starter-ready", "trace-ready", "no-starter"}));
  };
  command.run = [status](Context& context) -> Result<Answer> {
    const Catalogue catalogue = Catalogue::search(context.target_path);
    Answer answer;
    TargetList record = new_record<TargetList>();
    record.engine = context.engine->name();
    record.status = Status::ok;
    Table table({"target", "status", "seam", "description"});
    for (const auto& target : catalogue.targets()) {
      const std::string state = target.status(*context.engine);
      if (!status->empty() && state != *status) continue;
      record.targets.push_back({target.key, target.aliases, state, std::string(kWorkspaceMetric), target.seam,
                                target.families, target.title, target.folder.string()});
      table.row({target.key, state, target.seam.empty() ? "–" : target.seam, target.title});
    }
    answer.text = table.text(context.style);
    for (const auto& error : catalogue.broken()) {
      record.broken.push_back({error.what, error.remedy});
      answer.text += context.style.warn("broken: ") + error.what + "\n";
    }
    answer.record = to_json(record);
    if (!catalogue.targets().empty())
      answer.next = fmt::format("kernel-lab init --target {} --workspace DIR", catalogue.targets().front().key);
    return answer;
  };
  return command;
}

}  // namespace kl::app
