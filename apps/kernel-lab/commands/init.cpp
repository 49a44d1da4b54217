#include "records.hpp"
#include "session.hpp"

#include <lab/core/shell.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {

Command command_init() {
  struct Flags {
    std::string target, workspace, preset, language;
  };
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "init";
  command.summary = "workspace from a target's champion: one file to change";
  command.examples = {"init --target rmsnorm --workspace mine", "init --target norm --workspace mine --preset cpu-balanced"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--target", flags->target, "key or alias")->required()->type_name("KEY");
    app.add_option("--workspace", flags->workspace, "folder to make; must not exist or be empty")->required()->type_name("DIR");
    app.add_option("--preset", flags->preset, "trainer operating point the work is for")->type_name("NAME");
    app.add_option("--language", flags->language, "language of the kernel file (default: the engine's own)");
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    const Catalogue catalogue = Catalogue::search(context.target_path);
    KL_TRY(const Target target, catalogue.find(flags->target));
    std::string preset = flags->preset;
    if (!preset.empty()) {
      KL_TRY(preset, choose_filing_preset(context, preset, ""));
    }
    KL_TRY(const Workspace workspace, init_workspace({.target = &target, .engine = context.engine,
                                                      .folder = flags->workspace, .preset = preset,
                                                      .language = flags->language, .rationale = ""}));
    Answer answer;
    InitRecord record = new_record<InitRecord>();
    record.engine = workspace.record.engine;
    record.target = workspace.record.target;
    record.preset = preset;
    record.workspace = workspace.folder.string();
    record.status = Status::ok;
    record.kernel = workspace.kernel().string();
    record.made = workspace.record;
    answer.record = to_json(record);
    answer.text = workspace.kernel().string() + "\n";
    answer.next = command_line(context, fmt::format("verify --workspace {} --quick   (after changing {})",
                                                    shell_word(flags->workspace), workspace.record.kernel_file));
    return answer;
  };
  return command;
}

}  // namespace kl::app
