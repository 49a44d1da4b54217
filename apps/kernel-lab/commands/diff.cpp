#include "records.hpp"
#include "session.hpp"

#include <lab/flow/history.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {

Command command_diff() {
  struct Flags {
    std::string workspace, before = "champion", after = "workspace";
  };
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "diff";
  command.summary = "compare a verified source with the workspace, the champion or another";
  command.examples = {"diff --workspace mine                  (champion → workspace)",
                      "diff --workspace mine 3fa94c           (that source → workspace)",
                      "diff --workspace mine 3fa94c champion"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--workspace", flags->workspace, "workspace folder")->required()->type_name("DIR");
    app.add_option("before", flags->before, "a hash from history, `champion` or `workspace`")->type_name("HASH");
    app.add_option("after", flags->after, "the same (default: workspace)")->type_name("HASH");
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    const Catalogue catalogue = Catalogue::search(context.target_path);
    KL_TRY(const Workspace opened, open_workspace(flags->workspace, catalogue));
    KL_TRY(const Target target, catalogue.find(opened.record.target));
    SourceNames names{{}, opened.kernel()};
    if (const auto champion = target.champion(*context.engine)) names.champion = *champion;
    KL_TRY(const SourceDiff diff, diff_named(flags->before, flags->after, names, context.objects()));
    Answer answer;
    DiffRecord record = new_record<DiffRecord>();
    record.engine = opened.record.engine;
    record.target = target.key;
    record.workspace = opened.folder.string();
    record.status = Status::ok;
    record.before = flags->before;
    record.after = flags->after;
    record.patch = diff.text;
    record.lines_added = diff.lines_added;
    record.lines_removed = diff.lines_removed;
    answer.record = to_json(record);
    answer.text = diff.text.empty() ? "no difference\n" : diff.text;
    return answer;
  };
  return command;
}

}  // namespace kl::app
