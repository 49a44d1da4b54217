#include "records.hpp"
#include "session.hpp"

#include <lab/report/assessment_text.hpp>

#include <CLI/CLI.hpp>

namespace kl::app {

Command command_evidence() {
  struct Flags {
    std::string target, preset, workspace, format = "text";
  };
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "evidence";
  command.summary = "what the ledger knows about a target, what is stale and why, what is missing";
  command.examples = {"evidence --target rmsnorm", "evidence --target rmsnorm --format md"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--target", flags->target, "key or alias")->required()->type_name("KEY");
    app.add_option("--preset", flags->preset, "trainer operating point")->type_name("NAME");
    app.add_option("--workspace", flags->workspace, "candidate (default: the last one recorded)")->type_name("DIR");
    app.add_option("--format", flags->format, "text or md")->check(CLI::IsMember({"text", "md"}));
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    KL_TRY(const Assessment assessment, assess_target(context, flags->target, flags->preset, flags->workspace));
    Answer answer;
    answer.record = to_json(headed(assessment));
    if (flags->format == "md") {
      answer.text = evidence_markdown(assessment);
      return answer;
    }
    answer.text = evidence_text(assessment, context.style);
    answer.next = assessment.next.command;
    return answer;
  };
  return command;
}

}  // namespace kl::app
