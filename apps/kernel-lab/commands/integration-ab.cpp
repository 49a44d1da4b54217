#include "integration_run.hpp"
#include "stages.hpp"
#include "trainer_folders.hpp"

#include <lab/core/shell.hpp>
#include <lab/flow/external.hpp>
#include <lab/report/integration_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  IntegrationFlags ab;
  std::string preset;
};

// Against another baseline than the champion nothing moves, so the assessment has no word on it.
std::string the_same_again(const Context& context, const Session& session, const Flags& flags, const IntegrationRecord& record) {
  const RepeatedFlags repeated = repeated_flags(flags.ab);
  const int pairs = record.n_needed > 0 ? stats::rounded_look(record.n_needed) : record.max_pairs;
  return command_line(context, fmt::format("integration-ab --workspace {} --preset {} --against {} --pairs {}{}", shell_word(flags.ab.workspace),
                                           shell_word(session.preset), record.against, pairs, repeated.others));
}

Result<Answer> run_integration(Context& context, const Flags& flags) {
  const TrainerFolders folders;
  context.progress = told_by_stage(context);
  KL_CHECK(require_usable(context));
  KL_TRY(const Session session, open_session(context, flags.ab.workspace, flags.preset));
  if (is_external(session.preset) && flags.ab.trainer == "builtin")
    return make_error(Status::needs_integration_adapter,
                      fmt::format("{} is an imported trace: the lab cannot run the program it is of", session.preset),
                      command_line(context, fmt::format("integration-ab --workspace {} --preset smoke   (or another preset of the lab's trainer, which "
                                                        "stands in for yours; with --trainer PROGRAM, an adapter of yours: "
                                                        "docs/trainer-protocol.md)", shell_word(flags.ab.workspace))));
  KL_CHECK(require_trainer(context, session, flags.ab));
  KL_CHECK(require_verified(context, session));
  KL_TRY(const RecordedAb ran, run_and_record_ab(context, session, flags.ab));
  KL_TRY(const Assessment after, assess_now(context, session.catalogue, session.target, session.preset,
                                            session.kernel(), session.workspace.folder.string(), nullptr, repeated_flags(flags.ab)));
  if (ran.event.empty()) context.note("the baseline did not run: nothing is kept of this");
  Answer answer;
  answer.record = to_json(ran.record);
  answer.text = integration_text(ran.record, context.style);
  answer.exit_code = exit_code_of(ran.record.status, true);
  answer.next = after.next.command;
  if (ran.record.against != "champion" && ran.record.status == Status::inconclusive) answer.next = the_same_again(context, session, flags, ran.record);
  return answer;
}

}  // namespace

Command command_integration_ab() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "integration-ab";
  command.summary = "does the trainer get faster with it? balanced pairs of real training runs";
  command.examples = {"integration-ab --workspace mine", "integration-ab --workspace mine --preset cpu-balanced --pairs 8",
                      "integration-ab --workspace mine --time-budget 20 --benchmark-skip-eval --no-checkpoint"};
  command.flags = [flags](CLI::App& app) {
    add_integration_flags(app, flags->ab);
    app.add_option("--preset", flags->preset, "trainer operating point")->type_name("NAME");
  };
  command.run = [flags](Context& context) { return run_integration(context, *flags); };
  return command;
}

}  // namespace kl::app
