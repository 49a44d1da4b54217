#include "records.hpp"
#include "session.hpp"

#include <lab/core/clock.hpp>
#include <lab/report/assessment_text.hpp>
#include <lab/report/evidence_page.hpp>

#include <CLI/CLI.hpp>

namespace kl::app {
namespace {

// Reads the records and samples behind the assessment; what was measured is not judged again.
Result<Page> report_page(const Context& context, const Assessment& assessment) {
  KL_TRY(const Target target, Catalogue::search(context.target_path).find(assessment.target));
  KL_TRY(const LedgerReading reading, Ledger(context.ledger).query({.engine = assessment.engine,
                                                                    .event_types = assessed_event_types()}));
  ReportRequest request;
  request.assessment = assessment;
  request.seam = target.seam;
  request.events = reading.events;
  request.objects = context.objects().root();
  request.samples = context.samples().root();
  request.command_prefix = "kernel-lab" + context.global_flags;
  request.written_at = utc_now();
  return evidence_page(gather_report(request));
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
    app.add_option("--target", flags->target, "key or alias")->required()->type_name("KEY");
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
      answer.text = evidence_text(assessment, context.style);
      answer.next = assessment.next.command;
    } else if (!context.json) {
      KL_TRY(const Page page, report_page(context, assessment));
      answer.text = flags->format == "html" ? page_html(page) : page_markdown(page);
      answer.is_document = true;
    }
    return answer;
  };
  return command;
}

}  // namespace kl::app
