#include "integration_run.hpp"
#include "stages.hpp"
#include "trainer_folders.hpp"

#include <lab/integration/integration_suite.hpp>
#include <lab/report/integration_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  IntegrationFlags ab;
  std::vector<std::string> presets;
};

// Those named, else the calibrated default and the next stronger; each once.
Result<std::vector<std::string>> suite_presets(const Context& context, const std::vector<std::string>& named) {
  std::vector<std::string> names;
  for (const std::string& name : named) {
    KL_TRY(const std::string known, choose_preset(context, name, ""));
    if (std::find(names.begin(), names.end(), known) == names.end()) names.push_back(known);
  }
  if (!names.empty()) return names;
  KL_TRY(const std::string primary, choose_preset(context, "", ""));
  const TrainerClient trainer(TrainerClient::builtin());
  KL_TRY(const auto presets, trainer.presets());
  KL_TRY(const TrainerPreset described, trainer.preset(primary));
  names = {primary};
  if (const auto stronger = next_stronger(presets, described, context.engine->name())) names.push_back(stronger->name);
  return names;
}

// A suite on an unverified kernel is refused before anything runs.
Result<std::vector<Session>> open_sessions(Context& context, const Flags& flags) {
  std::vector<Session> sessions;
  KL_TRY(Session first, open_session(context, flags.ab.workspace, flags.presets.empty() ? "" : flags.presets.front()));
  KL_TRY(const auto presets, suite_presets(context, flags.presets));
  for (const std::string& preset : presets) {
    KL_TRY(Session session, open_session(context, flags.ab.workspace, preset));
    KL_CHECK(require_trainer(context, session, flags.ab));
    KL_CHECK(require_verified(context, session));
    sessions.push_back(std::move(session));
  }
  return sessions;
}

Result<Answer> run_suite(Context& context, const Flags& flags) {
  const TrainerFolders folders;
  context.progress = told_by_stage(context);
  KL_CHECK(require_usable(context));
  KL_TRY(const std::vector<Session> sessions, open_sessions(context, flags));
  std::vector<IntegrationRecord> records;
  std::vector<std::string> events;
  for (const Session& session : sessions) {
    KL_TRY(RecordedAb ran, run_and_record_ab(context, session, flags.ab));
    records.push_back(std::move(ran.record));
    events.push_back(std::move(ran.event));
  }
  SuiteRecord suite = suite_of(std::move(records));
  for (size_t i = 0; i < events.size(); ++i) suite.rows[i].event = events[i];

  // The presets' own events are the evidence; this one names them and repeats none.
  SuiteRecord brief = suite;
  brief.records.clear();
  KL_TRY(const LedgerEvent event, record_event(context, "integration-suite", brief, "speed_up", suite.rows.front().speed_up,
                                               {{"record", to_json(brief)}, {"against", suite.against}}));
  const Session& primary = sessions.front();
  KL_TRY(const Assessment after, assess_now(context, primary.catalogue, primary.target, primary.preset, primary.kernel(),
                                            primary.workspace.folder.string(), nullptr, repeated_flags(flags.ab)));
  Answer answer;
  answer.record = to_json(suite);
  answer.text = suite_text(suite, context.style);
  answer.exit_code = exit_code_of(suite.status, true);
  answer.next = after.next.command;
  return answer;
}

}  // namespace

Command command_integration_suite() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "integration-suite";
  command.summary = "the same on several presets: faster here, and slower nowhere?";
  command.examples = {"integration-suite --workspace mine", "integration-suite --workspace mine --presets smoke,cpu-balanced --pairs 8"};
  command.flags = [flags](CLI::App& app) {
    add_integration_flags(app, flags->ab);
    app.add_option("--presets", flags->presets, "the first is the primary one (default: the calibrated default and the next stronger)")
        ->delimiter(',')->type_name("NAME,NAME");
  };
  command.run = [flags](Context& context) { return run_suite(context, *flags); };
  return command;
}

}  // namespace kl::app
