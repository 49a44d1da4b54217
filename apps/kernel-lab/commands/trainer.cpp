#include "session.hpp"

#include <lab/core/shell.hpp>
#include <lab/integration/trainer_check.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verdict.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string preset;
  std::vector<std::string> program;
};

// integration-ab starts a program without arguments of its own; capture any.
std::string next_of(const Context& context, const TrainerCheckRecord& record) {
  std::string program = shell_word(record.program);
  if (record.arguments.empty())
    return command_line(context, fmt::format("integration-ab --workspace DIR --trainer {} --preset {}", program, record.preset));
  for (const auto& word : record.arguments) program += " " + shell_word(word);
  return command_line(context, fmt::format("capture --output t --preset {} -- {}", record.preset, program));
}

Result<Answer> check(const Context& context, const Flags& flags) {
  KL_CHECK(require_usable(context));
  const Catalogue catalogue = Catalogue::search(context.target_path);
  TrainerCheckRequest request;
  request.engine = context.engine;
  request.catalogue = &catalogue;
  request.program = flags.program.front();
  request.arguments.assign(flags.program.begin() + 1, flags.program.end());
  request.preset = flags.preset;
  request.progress = context.progress;
  KL_TRY(const TrainerCheckRecord record, check_trainer(request));

  Answer answer;
  answer.record = to_json(record);
  Table table({"", "part", "found"});
  int64_t absent = 0;
  for (const ProtocolCheck& check : record.checks) {
    table.row({check.verdict == "ok"      ? context.style.good("ok")
               : check.verdict == "wrong" ? context.style.bad("wrong")
                                          : context.style.warn("absent"),
               check.name, check.costs.empty() ? check.found : fmt::format("{}; {}", check.found, check.costs)});
    absent += check.verdict == "absent" ? 1 : 0;
  }
  answer.text = table.text(context.style);
  answer.text += verdict_line(context.style, record.status,
                              record.status == Status::ok
                                  ? fmt::format("{} speaks the protocol{}", record.program,
                                                absent == 0 ? "" : fmt::format(", {} of its parts left out", absent))
                                  : record.reason,
                              record.remedy);
  answer.exit_code = exit_code_of(record.status);
  if (record.status == Status::ok) answer.next = next_of(context, record);
  return answer;
}

}  // namespace

Command command_trainer() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "trainer";
  command.summary = "does a trainer of your own speak the protocol?";
  command.examples = {"trainer check -- kernel-lab-train", "trainer check --preset tiny -- python3 my_trainer.py   (docs/trainer-protocol.md)"};
  command.flags = [flags](CLI::App& app) {
    app.require_subcommand(1);
    CLI::App* check = app.add_subcommand("check", "every question and every kind of plan, once, on a few steps");
    check->add_option("--preset", flags->preset, "its operating point (default: the weakest of its first family)")->type_name("NAME");
    check->add_option("program", flags->program, "after --: the trainer")->required()->type_name("CMD");
    check->fallthrough();
  };
  command.run = [flags](Context& context) { return check(context, *flags); };
  return command;
}

}  // namespace kl::app
