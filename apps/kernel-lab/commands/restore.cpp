#include "records.hpp"
#include "session.hpp"

#include <lab/core/shell.hpp>
#include <lab/flow/history.hpp>
#include <lab/report/figures.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {

Command command_restore() {
  struct Flags {
    std::string workspace, hash;
  };
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "restore";
  command.summary = "bring a verified source back into the workspace; what was there is kept";
  command.examples = {"restore --workspace mine 3fa94c"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--workspace", flags->workspace, "workspace folder")->required()->type_name("DIR");
    app.add_option("hash", flags->hash, "from history; at least 6 digits")->required()->type_name("HASH");
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    const Catalogue catalogue = Catalogue::search(context.target_path);
    KL_TRY(const Workspace opened, open_workspace(flags->workspace, catalogue, KernelFile::may_be_missing));
    KL_TRY(const RestoredKernel restored, restore_kernel(opened, flags->hash, context.objects()));
    Answer answer;
    auto record = headed(restored);
    record.engine = opened.record.engine;
    record.target = opened.record.target;
    record.workspace = opened.folder.string();
    answer.record = to_json(record);
    answer.text = fmt::format("{} is now {}\n", opened.kernel().string(), short_hash(restored.kernel));
    if (!restored.replaced.empty())
      answer.text += fmt::format("what was there is kept as {}\n", short_hash(restored.replaced));
    answer.next = command_line(context, fmt::format("verify --workspace {} --quick", shell_word(flags->workspace)));
    return answer;
  };
  return command;
}

}  // namespace kl::app
