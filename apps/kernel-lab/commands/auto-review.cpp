#include "session.hpp"

#include <lab/core/record_file.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/external.hpp>
#include <lab/flow/review.hpp>
#include <lab/report/verdict.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

// Of the first candidate that has a kernel to start from: the plan of another one is only to choose another.
std::string next_of(const Context& context, const TraceProfileRecord& profile, const std::string& file) {
  std::string rank;
  for (const RankedCandidate& candidate : profile.candidates)
    if (candidate.starter == "starter-ready") {
      if (candidate.rank > 1) rank = fmt::format(" --rank {}", candidate.rank);
      break;
    }
  return command_line(context, fmt::format("orchestrate --trace-profile {} --workspace-root workspaces{}", shell_word(file), rank));
}

}  // namespace

Command command_auto_review() {
  auto file = std::make_shared<std::string>();
  Command command;
  command.name = "auto-review";
  command.summary = "machine judgement of a trace-profile: relevance of each target, with confidence";
  command.examples = {"auto-review --trace-profile captures/smoke.trace-profile.json"};
  command.flags = [file](CLI::App& app) {
    app.add_option("--trace-profile", *file, "record of trace-profile")->required()->type_name("FILE");
  };
  command.run = [file](Context& context) -> Result<Answer> {
    KL_TRY(const TraceProfileRecord profile, read_record<TraceProfileRecord>(*file, "`kernel-lab trace-profile` writes one"));
    const AutoReviewRecord record = auto_review(profile);
    KL_TRY(const LedgerEvent event, record_event(context, "auto-review", record, "confidence",
                                                 record.status == Status::ok ? std::optional<double>(record.confidence) : std::nullopt,
                                                 {{"record", to_json(record)}}));
    Answer answer;
    answer.record = to_json(record);
    for (const auto& finding : record.findings) answer.text += "  " + finding + "\n";
    answer.text += verdict_line(context.style, record.status,
                                record.status == Status::ok ? fmt::format("confidence {:.2f}: {}", record.confidence, record.confidence_reason)
                                                            : record.reason, record.remedy);
    answer.exit_code = exit_code_of(record.status);
    if (record.status == Status::ok)
      answer.next = next_of(context, profile, *file);
    else if (!is_external(record.preset))
      answer.next = command_line(context, "capture --preset " + (record.preset.empty() ? "smoke" : record.preset) + " --output captures/again");
    return answer;
  };
  return command;
}

}  // namespace kl::app
