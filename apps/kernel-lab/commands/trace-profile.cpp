#include "target_facts.hpp"

#include <lab/core/clock.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/record_file.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/credits.hpp>
#include <lab/flow/external.hpp>
#include <lab/flow/profile.hpp>
#include <lab/integration/capture.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/ranking_text.hpp>
#include <lab/report/trace_text.hpp>
#include <lab/report/verdict.hpp>
#include <lab/trace/import/import.hpp>
#include <lab/trace/window.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string metadata, trace, preset, output, window;
};

// The capture's record; its trace is beside it.
Result<CaptureRecord> read_metadata(const std::string& file) {
  const std::string remedy = "give the PREFIX.metadata.json that `kernel-lab capture --output PREFIX` wrote";
  KL_TRY(CaptureRecord record, read_record<CaptureRecord>(file, remedy));
  if (record.status == Status::error && record.reason.empty() && record.failure_reason.empty())
    return make_error(Status::usage, fmt::format("{} does not say how the capture ended", file), remedy);
  return record;
}

void add_shares(const trace::Summary& summary, PresetFacts& facts) {
  for (TargetFacts& one : facts.targets) {
    if (!one.not_on_path.empty()) continue;
    for (const auto& seam : summary.seams) {
      if (seam.seam != one.seam) continue;
      one.share = seam.share;
      one.share_from = seam.rule;
      if (summary.steps > 0) one.measured_ns = static_cast<double>(seam.kernel_union_ns) / static_cast<double>(summary.steps);
    }
    if (!one.share) one.not_on_path = "the trace does not hold its seam";
  }
}

void rank(TraceProfileRecord& record, const PresetFacts& facts, const std::map<std::string, Assessment>& standing) {
  const Ranking ranking = rank_targets(facts.targets, standing);
  record.candidates = ranking.candidates;
  record.not_ranked = ranking.not_ranked;
}

// Another trace that is filed under the same name: a newer one of the same program, or of another with the same stem.
void note_namesake(const Context& context, const TraceProfileRecord& record) {
  const auto filed = Ledger(context.ledger).query({.engine = record.engine, .preset = record.preset, .event_types = {"trace-profile"}});
  if (!filed.ok() || filed->events.empty()) return;
  const Json before = filed->events.back().details.value("record", Json::object());
  const std::string hash = before.value("trace_hash", "");
  if (hash.empty() || hash == record.trace_hash) return;
  context.note(fmt::format("{} held {} ({}) until now; {} ({}) is newer and counts. Of another program? File it with --preset external:NAME",
                           record.preset, before.value("trace", "?"), short_hash(hash), record.trace, short_hash(record.trace_hash)));
}

Result<Answer> finish(Context& context, int64_t begun_ns, TraceProfileRecord& record, const std::string& text, const std::string& next) {
  record.output_file = fs::absolute(record.output_file).string();
  record.wall_seconds = static_cast<double>(monotonic_ns() - begun_ns) * 1e-9;
  KL_CHECK(write_file_atomic(record.output_file, dump_pretty(to_json(record)) + "\n"));
  KL_TRY(const LedgerEvent event, record_event(context, "trace-profile", record, "covered_share",
                                               record.status == Status::ok ? std::optional<double>(record.summary.covered_share) : std::nullopt,
                                               {{"record", to_json(record)}}));
  Answer answer;
  answer.record = to_json(record);
  answer.text = text + verdict_line(context.style, record.status,
                                    record.status == Status::ok ? fmt::format("{}: {}", record.summary.bottleneck.label, record.summary.bottleneck.reason)
                                                                : record.reason, record.remedy) +
                (is_external(record.preset) ? fmt::format("filed under {}\n", record.preset) : "") +
                fmt::format("written to {}\n", record.output_file);
  answer.exit_code = exit_code_of(record.status);
  answer.next = next;
  return answer;
}

Result<Answer> run_trace_profile(Context& context, const Flags& flags) {
  if (flags.metadata.empty() == flags.trace.empty())
    return make_error(Status::usage, "give either --metadata or --trace", "--metadata PREFIX.metadata.json of a capture, or --trace FILE");
  const int64_t begun_ns = monotonic_ns();
  auto record = new_record<TraceProfileRecord>();
  record.engine = context.engine->name();
  record.preset = flags.preset;
  record.trace = flags.trace;
  if (!flags.preset.empty()) {
    KL_TRY(record.preset, choose_filing_preset(context, flags.preset, ""));
  }
  if (!flags.metadata.empty()) {
    KL_TRY(const CaptureRecord capture, read_metadata(flags.metadata));
    record.metadata = flags.metadata;
    record.preset = capture.preset;
    record.engine = capture.engine;
    record.identity = capture.identity;
    record.output_file = !flags.output.empty() ? flags.output : capture.prefix + ".trace-profile.json";
    if (capture.status != Status::ok) {
      record.status = Status::capture_unavailable;
      record.reason = fmt::format("the capture ended {}: {}", to_string(capture.status),
                                  capture.failure_reason.empty() ? capture.reason : capture.failure_reason);
      record.remedy = capture.remedy;
      return finish(context, begun_ns, record, "", command_line(context, fmt::format("capture --preset {} --output {}", capture.preset, shell_word(capture.prefix))));
    }
    record.trace = trace_file(capture.prefix).string();
    if (!fs::exists(record.trace)) record.trace = (fs::path(flags.metadata).parent_path() / fs::path(record.trace).filename()).string();
  } else if (record.output_file = flags.output; flags.output.empty()) {
    record.output_file = (fs::path(flags.trace).parent_path() / stem_of_trace(flags.trace)).string() + ".trace-profile.json";
  }
  KL_TRY(trace::TraceModel model, trace::read_trace(record.trace));
  if (!flags.window.empty()) KL_CHECK(trace::cut_window(model, flags.window));
  KL_TRY(record.trace_hash, sha256_file(record.trace));
  record.summary = trace::summarise(model);
  record.summary.window = flags.window;
  if (record.preset.empty())
    if (const auto preset = model.metadata.find("KERNEL_LAB_PRESET"); preset != model.metadata.end()) record.preset = preset->second;
  if (record.preset.empty()) record.preset = external_preset(flags.trace);
  const bool external = is_external(record.preset), by_families = external || record.summary.seams.empty();
  if (record.summary.families.empty()) {
    record.status = Status::insufficient_trace_data;
    record.reason = record.summary.bottleneck.reason;
    record.remedy = "trace a longer window, with the device's activities in it";
    return finish(context, begun_ns, record, summary_text(record.summary, context.style), "");
  }
  if (external) note_namesake(context, record);
  if (!external) KL_CHECK(require_usable(context));
  const Catalogue catalogue = Catalogue::search(context.target_path);
  KL_TRY(PresetFacts facts, preset_facts(context, catalogue, record.preset));
  if (record.identity.fingerprint_class.empty()) record.identity = facts.identity;
  add_credits(record.summary, facts.targets);
  if (by_families)
    add_family_shares(record.summary, facts.targets);
  else
    add_shares(record.summary, facts);
  record.attributed_by = by_families ? "families" : "seams";
  for (const TargetFacts& one : facts.targets)
    if (one.share && one.not_on_path.empty()) record.seam_share[external ? one.target : one.seam] = *one.share;
  record.status = Status::ok;
  rank(record, facts, {});
  if (external && record.candidates.empty()) {
    record.status = Status::insufficient_trace_data;
    record.reason = "no kernel of the trace is of a family that a target has";
    record.remedy = fmt::format("`{}` lists them; `kernel-lab new-target` makes a target of an operation of your own",
                                command_line(context, "trace summary " + shell_word(record.trace) + " --kernels"));
    return finish(context, begun_ns, record, summary_text(record.summary, context.style), "");
  }
  // Where each target stands once this record is on file.
  LedgerEvent pending = event_of(context, "trace-profile", record, "", std::nullopt, {{"record", to_json(record)}});
  pending.id = "pending";
  KL_TRY(const auto standing, standing_of(context, catalogue, facts, record.preset, &pending));
  rank(record, facts, standing);
  const std::string output = record.output_file;
  return finish(context, begun_ns, record,
                summary_text(record.summary, context.style) + ranking_text(record.candidates, record.not_ranked, context.style),
                command_line(context, "auto-review --trace-profile " + shell_word(output)));
}

}  // namespace

Command command_trace_profile() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "trace-profile";
  command.summary = "a trace's families, seams, shares and bottleneck, and the targets it ranks";
  command.examples = {"trace-profile --metadata captures/smoke.metadata.json", "trace-profile --trace t.sqlite --preset smoke --output tp.json",
                      "--engine cuda trace-profile --trace run.pt.trace.json.gz   (of your own trainer: filed under external:run.pt.trace)"};
  command.flags = [flags](CLI::App& app) {
    auto* metadata = app.add_option("--metadata", flags->metadata, "PREFIX.metadata.json of a capture")->type_name("FILE");
    app.add_option("--trace", flags->trace, "a trace by itself")->type_name("FILE");
    app.add_option("--preset", flags->preset, "with --trace: what was traced (default: what a capture says, else external:STEM)")
        ->excludes(metadata)->type_name("NAME");
    app.add_option("--window", flags->window, "a part of the trace: steps (3:8) or time (0.5s:2s)")->type_name("FROM:TO");
    app.add_option("--output", flags->output, "default: PREFIX.trace-profile.json")->type_name("FILE");
  };
  command.run = [flags](Context& context) { return run_trace_profile(context, *flags); };
  return command;
}

}  // namespace kl::app
