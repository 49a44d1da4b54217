#include "records.hpp"
#include "session.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/profile.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {

Command command_extract() {
  struct Flags {
    std::string profile, workspace;
    int64_t rank = 1;
  };
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "extract";
  command.summary = "workspace from a ranked candidate of a profile or trace-profile; keeps its rank and rationale";
  command.examples = {"extract --profile p.json --workspace mine", "extract --profile captures/smoke.trace-profile.json --workspace mine --rank 2"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--profile", flags->profile, "record of profile or trace-profile")->required()->type_name("FILE");
    app.add_option("--workspace", flags->workspace, "folder to make; must not exist or be empty")->required()->type_name("DIR");
    app.add_option("--rank", flags->rank, "which candidate")->check(whole_number_check(1, 1'000'000));
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    const Catalogue catalogue = Catalogue::search(context.target_path);
    KL_TRY(const ReadProfile profile, read_profile(flags->profile));
    KL_TRY(const RankedCandidate candidate, candidate_of_rank(profile, flags->rank));
    KL_TRY(const Target target, catalogue.find(candidate.target));
    if (!context.engine_chosen && !profile.engine.empty()) {
      KL_TRY(context.engine, find_engine(profile.engine));
    }
    InitRequest request;
    request.target = &target;
    request.engine = context.engine;
    request.folder = flags->workspace;
    request.preset = profile.preset;
    request.profile = fs::absolute(flags->profile).string();
    request.rank = static_cast<int>(candidate.rank);
    request.score = candidate.score;
    request.category = candidate.category;
    request.rationale = candidate.rationale;
    KL_TRY(const Workspace workspace, init_workspace(request));
    InitRecord record = new_record<InitRecord>();
    record.engine = workspace.record.engine;
    record.target = workspace.record.target;
    record.preset = profile.preset;
    record.workspace = workspace.folder.string();
    record.status = Status::ok;
    record.kernel = workspace.kernel().string();
    record.made = workspace.record;
    Answer answer;
    answer.record = to_json(record);
    answer.text = workspace.kernel().string() + "\n";
    answer.next = command_line(context, fmt::format("verify --workspace {} --quick   (after changing {})", shell_word(flags->workspace),
                                                    workspace.record.kernel_file));
    return answer;
  };
  return command;
}

}  // namespace kl::app
