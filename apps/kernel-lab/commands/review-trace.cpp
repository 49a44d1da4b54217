#include "session.hpp"

#include <lab/core/record_file.hpp>
#include <lab/flow/relevance.hpp>
#include <lab/flow/review.hpp>
#include <lab/report/verdict.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string target, workspace, metadata, deep_profile, trace_profile, relevance, notes;
};

Result<Answer> run_review(Context& context, const Flags& flags) {
  if (flags.target.empty() == flags.workspace.empty())
    return make_error(Status::usage, "give either --target or --workspace", "whose relevance is judged?");
  if ((flags.metadata.empty() ? 0 : 1) + (flags.deep_profile.empty() ? 0 : 1) + (flags.trace_profile.empty() ? 0 : 1) != 1)
    return make_error(Status::usage, "give one of --metadata, --deep-profile and --trace-profile",
                      "what was looked at: PREFIX.metadata.json of a capture, or a record of deep-profile or, of an imported trace, of trace-profile");
  const Catalogue catalogue = Catalogue::search(context.target_path);
  auto record = new_record<TraceReviewRecord>();
  std::string key = flags.target;
  if (key.empty()) {
    KL_TRY(const Workspace workspace, open_workspace(flags.workspace, catalogue));
    key = workspace.record.target;
    record.workspace = workspace.folder.string();
  }
  KL_TRY(const Target target, catalogue.find(key));
  using Looked = std::pair<std::string, std::string_view>;  // file, and whose record it is
  const auto [file, wanted] = !flags.metadata.empty()       ? Looked{flags.metadata, "capture"}
                              : !flags.deep_profile.empty() ? Looked{flags.deep_profile, "deep-profile"}
                                                            : Looked{flags.trace_profile, "trace-profile"};
  KL_TRY(const RecordFile looked, read_record_file(file, {&wanted, 1}, fmt::format("`kernel-lab {}` writes one", wanted)));
  if (wanted == "deep-profile" && looked.header.target != target.key)
    return make_error(Status::usage, fmt::format("{} is of {}, not of {}", file, looked.header.target, target.key),
                      "judge the target that was diagnosed");
  record.engine = looked.header.engine;
  record.target = target.key;
  record.preset = looked.header.preset;
  record.identity = looked.header.identity;
  record.status = Status::ok;
  record.metadata = flags.metadata;
  record.deep_profile = flags.deep_profile;
  record.trace_profile = flags.trace_profile;
  record.relevance = flags.relevance;
  record.notes = flags.notes;
  KL_TRY(const LedgerEvent event, record_event(context, "trace-review", record, "", std::nullopt, {{"record", to_json(record)}}));
  Answer answer;
  answer.record = to_json(record);
  answer.text = verdict_line(context.style, record.status,
                             fmt::format("{} on {} is of {} relevance, says a person", target.key, record.preset, record.relevance));
  answer.next = command_line(context, fmt::format("promotion-check --target {}{}", target.key,
                                                  record.preset.empty() ? "" : " --preset " + record.preset));
  return answer;
}

}  // namespace

Command command_review_trace() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "review-trace";
  command.summary = "a person's judgement of a trace or a diagnosis, kept in the ledger";
  command.examples = {"review-trace --target rmsnorm --metadata captures/smoke.metadata.json --relevance low --notes 'fused away soon'"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--target", flags->target, "key or alias")->type_name("KEY");
    app.add_option("--workspace", flags->workspace, "instead of --target")->type_name("DIR");
    app.add_option("--metadata", flags->metadata, "PREFIX.metadata.json of the capture looked at")->type_name("FILE");
    app.add_option("--deep-profile", flags->deep_profile, "record of the diagnosis looked at")->type_name("FILE");
    app.add_option("--trace-profile", flags->trace_profile, "record of the trace looked at, of an imported one")->type_name("FILE");
    app.add_option("--relevance", flags->relevance, "none, low, medium, high")->required()->check(CLI::IsMember(relevance_names()));
    app.add_option("--notes", flags->notes, "why")->type_name("TEXT");
  };
  command.run = [flags](Context& context) { return run_review(context, *flags); };
  return command;
}

}  // namespace kl::app
