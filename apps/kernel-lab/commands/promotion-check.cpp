#include "records.hpp"
#include "session.hpp"

#include <lab/report/assessment_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {

Command command_promotion_check() {
  struct Flags {
    std::string target, preset, workspace, require;
  };
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "promotion-check";
  command.summary = "the gate: where a target stands and the next step";
  command.examples = {"promotion-check --target rmsnorm", "promotion-check --workspace mine",
                      "promotion-check --target rmsnorm --require integration-validated"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--target", flags->target, "key or alias (default: the workspace's)")->type_name("KEY");
    app.add_option("--preset", flags->preset, "trainer operating point")->type_name("NAME");
    app.add_option("--workspace", flags->workspace, "candidate (default: the last one recorded)")->type_name("DIR");
    const auto& states = promotion_state_names();
    app.add_option("--require", flags->require, "exit 3 unless this is the state")
        ->check(CLI::IsMember(std::vector<std::string>(states.begin(), states.end())))->type_name("STATE");
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    KL_TRY(const Assessment assessment, assess_target(context, flags->target, flags->preset, flags->workspace));
    Answer answer;
    auto record = headed(assessment);
    answer.text = assessment_text(assessment, context.style);
    answer.next = assessment.next.command;
    if (!flags->require.empty() && assessment.state != flags->require) {
      answer.text += fmt::format("required: {}\n", flags->require);
      record.status = Status::refused;
      record.reason = fmt::format("the state is {}, not {}", assessment.state, flags->require);
      record.remedy = assessment.next.command;
    }
    answer.record = to_json(record);
    answer.exit_code = exit_code_of(record.status);
    return answer;
  };
  return command;
}

}  // namespace kl::app
