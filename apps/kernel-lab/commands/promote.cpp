#include "report_page.hpp"
#include "verify_run.hpp"

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/promotion.hpp>
#include <lab/ledger/git_state.hpp>
#include <lab/report/assessment_text.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/promotion_text.hpp>
#include <lab/report/verify_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string workspace, hash, preset, why;
  bool apply = false, force = false;
};

// A stored source as a workspace of its own, so that promotion by hash goes the same way. Returns
// the hash of the champion that its evidence was measured against.
Result<std::string> workspace_of_hash(const Context& context, const Catalogue& catalogue, const std::string& hash,
                                      const fs::path& folder) {
  KL_TRY(const LedgerReading reading, Ledger(context.ledger).query({.engine = std::string(context.engine->name()),
                                                                    .kernel = hash, .event_types = {"verify"}, .newest = 1}));
  if (reading.events.empty())
    return make_error(Status::usage, fmt::format("no verified source {} on engine {}", hash, context.engine->name()),
                      "give a hash that `kernel-lab history` or `kernel-lab ledger show` prints");
  KL_TRY(const Target target, catalogue.find(reading.events.front().target));
  KL_TRY(const std::string source, context.objects().get(reading.events.front().identity.kernel));
  KL_TRY(const Workspace workspace, init_workspace({.target = &target, .engine = context.engine, .folder = folder,
                                              .preset = reading.events.front().preset, .language = "", .rationale = ""}));
  KL_CHECK(write_file_atomic(workspace.kernel(), source));
  return reading.events.front().identity.baseline;
}

// What the evidence says was gained, and the ids it says it with.
void gather_gains(const Assessment& assessment, Provenance& provenance) {
  for (const auto* group : {&assessment.heuristic, &assessment.integration})
    for (const auto& line : *group) {
      if (!line.counts) continue;
      provenance.evidence.push_back(line.id);
      if (line.metric_value && (line.metric_name == "speed_up" || line.metric_name == "time_ratio"))
        provenance.gains[line.metric_name] = *line.metric_value;
    }
}

// The evidence as a page, named by the kernel it is about.
Result<std::string> write_report(const Context& context, const Catalogue& catalogue, const Assessment& assessment) {
  KL_TRY(const Page page, report_page(context, catalogue, assessment));
  const fs::path folder = context.results() / "reports";
  KL_CHECK(make_directories(folder));
  const fs::path file = folder / fmt::format("{}-{}-{}.html", assessment.target, assessment.engine, short_hash(assessment.candidate_hash));
  KL_CHECK(write_file_atomic(file, page_html(page)));
  return file.string();
}

// The line that does what this preview shows: without the same flags it would be another promotion, or a refused one.
std::string apply_line(const Flags& flags) {
  std::string line = flags.hash.empty() ? "promote --workspace " + shell_word(flags.workspace) : "promote --hash " + shell_word(flags.hash);
  if (!flags.preset.empty()) line += " --preset " + shell_word(flags.preset);
  line += " --apply";
  if (flags.force) line += " --force";
  if (!flags.why.empty()) line += " --why " + shell_word(flags.why);
  return line;
}

Result<Answer> run_promote(Context& context, const Flags& flags) {
  KL_CHECK(require_usable(context));
  if (flags.workspace.empty() == flags.hash.empty())
    return make_error(Status::usage, "give one of --workspace and --hash", "see kernel-lab promote --help");
  if (flags.force && flags.why.empty())
    return make_error(Status::usage, "--force without a reason", "say why: --force --why \"…\"");
  KL_TRY(const TemporaryFolder scratch, TemporaryFolder::create("kernel-lab-promote"));
  std::string folder = flags.workspace, made_from;
  if (!flags.hash.empty()) {
    const Catalogue catalogue = Catalogue::search(context.target_path);
    folder = (scratch.path() / "workspace").string();
    KL_TRY(made_from, workspace_of_hash(context, catalogue, flags.hash, folder));
  }
  KL_TRY(const Session session, open_session(context, folder, flags.preset));
  if (made_from.empty()) made_from = session.workspace.record.champion_hash;
  KL_TRY(const fs::path champion, champion_source(context, session.target));
  KL_TRY(const Assessment assessment, assess_now(context, session.catalogue, session.target, session.preset,
                                                 session.kernel(), session.workspace.folder.string()));

  PromotionRecord record = new_record<PromotionRecord>();
  const int64_t begun_ns = monotonic_ns();
  record.engine = context.engine->name();
  record.target = session.target.key;
  record.preset = session.preset;
  record.workspace = flags.workspace;
  record.champion = champion.string();
  record.state = assessment.state;
  record.answer = assessment.answer;
  const auto answer_with = [&](const std::string& next) {
    record.wall_seconds = static_cast<double>(monotonic_ns() - begun_ns) * 1e-9;
    Answer answer;
    answer.record = to_json(record);
    answer.text = promotion_text(record, context.style);
    answer.exit_code = exit_code_of(record.status);
    answer.next = next;
    return answer;
  };

  KL_TRY(const std::string source, read_file(session.kernel()));
  KL_TRY(const PromotionPatch patch, promotion_patch(champion, source));
  record.identity.kernel = patch.to_hash;
  record.identity.baseline = patch.from_hash;
  record.patch = patch.diff.text;
  if (assessment.answer != "ready-to-promote" && !flags.force) {
    record.status = Status::refused;
    record.reason = fmt::format("the evidence says {} (state {})", assessment.answer, assessment.state);
    for (const auto& blocker : assessment.blockers) record.reason += "; " + blocker;
    record.remedy = "complete the evidence, or --force --why \"…\" (recorded)";
    return answer_with(assessment.next.command);
  }

  const VerifyRecord verified = run_verify(context, {session.target, session.kernel(), champion, session.preset,
                                                     session.shapes, session.workspace.folder.string(), true, false, std::nullopt});
  KL_CHECK(record_verify(context, verified, session.kernel()));
  record.verified_cases = verified.cases_run;
  if (verified.status != Status::ok) {
    record.status = verified.status == Status::mismatch ? Status::mismatch : Status::refused;
    record.reason = "verified again, and it failed: " + verify_sentence(verified);
    record.remedy = verified.remedy;
    return answer_with(command_line(context, fmt::format("verify --workspace {}", folder)));
  }

  PromotionRequest request;
  request.champion = champion;
  request.source = source;
  request.verified_hash = verified.kernel_hash;
  request.made_from = made_from;
  request.forced = flags.force;
  const ObjectStore objects = context.objects();
  request.objects = &objects;
  Provenance& provenance = request.provenance;
  provenance.target = record.target;
  provenance.engine = record.engine;
  provenance.lab_version = std::string(kLabVersion);
  provenance.git_commit = git_state(fs::current_path()).commit;
  provenance.preset = session.preset;
  provenance.forced = flags.force;
  provenance.why = flags.why;
  gather_gains(assessment, provenance);
  provenance.lines_added = patch.diff.lines_added;
  provenance.lines_removed = patch.diff.lines_removed;
  record.provenance = provenance;
  // A page that cannot be written is said and stops nothing.
  const auto leave_report = [&](const Result<Assessment>& standing) {
    const auto file = standing.ok() ? write_report(context, session.catalogue, *standing) : Result<std::string>(standing.error());
    if (file.ok())
      record.report = *file;
    else
      context.note(fmt::format("no page of the evidence: {}", file.error().what));
  };
  const auto standing_now = [&] {
    return assess_now(context, session.catalogue, session.target, session.preset, session.kernel(), session.workspace.folder.string());
  };
  if (!flags.apply) {
    record.status = Status::patch_ready;
    leave_report(standing_now());
    return answer_with(command_line(context, apply_line(flags)));
  }
  const auto applied = apply_promotion(request);
  if (!applied.ok()) {
    record.status = applied.error().status;
    record.reason = applied.error().what;
    record.remedy = applied.error().remedy;
    return answer_with("");
  }
  record.provenance = *applied;
  record.status = Status::promoted;
  KL_TRY(const LedgerEvent event, record_event(context, "promotion", record, "lines_added",
                                               static_cast<double>(applied->lines_added),
                                               {{"provenance", to_json(*applied)}, {"forced", flags.force}, {"why", flags.why}}));
  leave_report(standing_now());
  return answer_with(command_line(context, fmt::format("evidence --target {}", session.target.key)));
}

}  // namespace

Command command_promote() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "promote";
  command.summary = "verify again, then the patch that makes the candidate the champion";
  command.examples = {"promote --workspace mine            (shows patch and report)", "promote --workspace mine --apply",
                      "promote --hash 3fa94c --apply",
                      "promote --workspace mine --apply --force --why \"needed for the H2 experiment\""};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--workspace", flags->workspace, "workspace folder")->type_name("DIR");
    app.add_option("--hash", flags->hash, "a verified source by its hash")->type_name("HASH");
    app.add_option("--preset", flags->preset, "trainer operating point of the evidence")->type_name("NAME");
    app.add_flag("--apply", flags->apply, "change the champion file and its provenance.json");
    app.add_flag("--force", flags->force, "against the evidence; needs --why");
    app.add_option("--why", flags->why, "the reason, kept in ledger and provenance")->type_name("TEXT");
  };
  command.run = [flags](Context& context) { return run_promote(context, *flags); };
  return command;
}

}  // namespace kl::app
