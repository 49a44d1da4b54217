#include "records.hpp"
#include "report_page.hpp"

#include <lab/flow/trace_change.hpp>
#include <lab/report/assessment_text.hpp>
#include <lab/report/trace_text.hpp>

#include <CLI/CLI.hpp>

namespace kl::app {

namespace {

// Nothing where the preset has no two traces.
Result<std::string> trace_change(const Context& context, const Assessment& assessment) {
  if (context.json) return std::string();
  KL_TRY(const LedgerReading reading, Ledger(context.ledger).query({.engine = assessment.engine, .event_types = {"trace-profile"}}));
  const auto change = newest_trace_change(reading.events, assessment);
  return change ? trace_change_text(*change, context.style) : std::string();
}

}  // namespace

Command command_evidence() {
  struct Flags {
    std::string target, preset, workspace, format = "text";
  };
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "evidence";
  command.summary = "what the ledger knows about a target, what is stale and why, what is missing";
  command.examples = {"evidence --target rmsnorm", "evidence --target rmsnorm --format html --output rmsnorm.html",
                      "evidence --target rmsnorm --format md"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--target", flags->target, "key or alias (default: the workspace's)")->type_name("KEY");
    app.add_option("--preset", flags->preset, "trainer operating point")->type_name("NAME");
    app.add_option("--workspace", flags->workspace, "candidate (default: the last one recorded)")->type_name("DIR");
    app.add_option("--format", flags->format, "text; md or html: the whole report, html with its drawings")
        ->check(CLI::IsMember({"text", "md", "html"}));
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    KL_TRY(const Assessment assessment, assess_target(context, flags->target, flags->preset, flags->workspace));
    Answer answer;
    answer.record = to_json(headed(assessment));
    if (flags->format == "text") {
      KL_TRY(const std::string change, trace_change(context, assessment));
      answer.text = change + evidence_text(assessment, context.style);
      answer.next = assessment.next.command;
    } else if (!context.json) {
      KL_TRY(const Page page, report_page(context, Catalogue::search(context.target_path), assessment));
      answer.text = flags->format == "html" ? page_html(page) : page_markdown(page);
      answer.is_document = true;
    }
    return answer;
  };
  return command;
}

}  // namespace kl::app
