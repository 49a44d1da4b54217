#include "integration_run.hpp"

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

Result<Answer> run_integration(Context& context, const Flags& flags) {
  KL_CHECK(require_usable(context));
  KL_TRY(const Session session, open_session(context, flags.ab.workspace, flags.preset));
  if (is_external(session.preset) && flags.ab.trainer == "builtin")
    return make_error(Status::needs_integration_adapter,
                      fmt::format("{} is an imported trace: the lab cannot run the program it is of", session.preset),
                      command_line(context, fmt::format("integration-ab --workspace {} --preset smoke   (or another preset of the lab's trainer, which "
                                                        "stands in for yours; with --trainer PROGRAM, an adapter of yours: "
                                                        "docs/trainer-protocol.md)", shell_word(flags.ab.workspace))));
  KL_CHECK(require_verified(context, session));
  KL_TRY(const RecordedAb ran, run_and_record_ab(context, session, flags.ab));
  KL_TRY(const Assessment after, assess_now(context, session.catalogue, session.target, session.preset,
                                            session.kernel(), session.workspace.folder.string()));
  Answer answer;
  answer.record = to_json(ran.record);
  answer.text = integration_text(ran.record, context.style);
  answer.exit_code = exit_code_of(ran.record.status, true);
  answer.next = after.next.command;
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
