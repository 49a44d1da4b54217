#include "session.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/core/record_file.hpp>
#include <lab/flow/plan.hpp>
#include <lab/flow/profile.hpp>
#include <lab/integration/capture.hpp>
#include <lab/report/table.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string profile, trace_profile, workspace_root, trace_metadata;
  int64_t rank = 1;
};

// As a user would type it: relative where it lies below the working folder.
std::string short_path(const std::string& path) {
  if (path.empty()) return path;
  const std::string relative = fs::path(path).lexically_proximate(fs::current_path()).string();
  return relative.starts_with("..") ? path : relative;
}

// A capture's metadata; whether there is a trace is what its status says.
Result<bool> has_trace(const std::string& file) {
  static constexpr std::string_view kSchema = CaptureRecord::kSchema;
  KL_TRY(const RecordFile capture, read_record_file(file, {&kSchema, 1}, "give PREFIX.metadata.json of a capture"));
  return capture.header.status == Status::ok;
}

Result<Answer> run_orchestrate(Context& context, const Flags& flags) {
  if (flags.profile.empty() == flags.trace_profile.empty())
    return make_error(Status::usage, "give either --profile or --trace-profile", "`kernel-lab profile --output p.json` writes one");
  const std::string file = flags.profile.empty() ? flags.trace_profile : flags.profile;
  if (std::error_code code; fs::exists(flags.workspace_root, code) && !fs::is_directory(flags.workspace_root, code))
    return make_error(Status::usage, fmt::format("--workspace-root {} is not a folder", flags.workspace_root),
                      "give a folder, which need not be there yet");
  KL_TRY(const ReadProfile profile, read_profile(file));
  PlanRequest request;
  KL_TRY(request.candidate, candidate_of_rank(profile, flags.rank));
  if (!context.engine_chosen && !profile.engine.empty()) {
    KL_TRY(context.engine, find_engine(profile.engine));
  }
  request.preset = profile.preset;
  request.profile_file = file;
  request.profile_is_trace = profile.schema == TraceProfileRecord::kSchema && profile.status == Status::ok;
  request.imported_trace = profile.trace;
  request.trace_metadata = flags.trace_metadata;
  if (!flags.trace_metadata.empty()) {
    KL_TRY(request.trace_metadata_ok, has_trace(flags.trace_metadata));
  }
  request.command_prefix = "kernel-lab" + context.global_flags;
  // The last workspace of this target, if it is still there; else the one under the root.
  const Catalogue catalogue = Catalogue::search(context.target_path);
  KL_TRY(Assessment now, assess_target(context, request.candidate.target, profile.preset, ""));
  request.workspace = now.workspace;
  request.workspace_exists = !now.workspace.empty() && open_workspace(now.workspace, catalogue).ok();
  if (!request.workspace_exists) {
    request.workspace = (fs::path(flags.workspace_root) / request.candidate.target).string();
    request.workspace_exists = open_workspace(request.workspace, catalogue).ok();
  }
  if (request.workspace_exists) {
    KL_TRY(now, assess_target(context, request.candidate.target, profile.preset, request.workspace));
  }
  for (std::string* path : {&request.workspace, &now.capture_file, &now.trace_profile_file, &now.deep_profile_file})
    *path = short_path(*path);
  const PlanRecord plan = make_plan(now, request);
  Answer answer;
  answer.record = to_json(plan);
  answer.text = fmt::format("{} on {}, preset {}: rank {}, {}\n", context.style.bold(plan.target), plan.engine, plan.preset,
                            plan.candidate.rank, plan.candidate.rationale);
  Table table({"", "command", "settles"});
  for (const PlanStep& step : plan.steps) {
    table.row({step.state == "done" ? "done" : step.state == "next" ? "next" : "", step.command, step.why});
    if (step.state == "next") answer.next = step.command;
  }
  answer.text += table.text(context.style) + fmt::format("{} {}   state: {}   answer: {}\n", context.style.bold("level:"), plan.level, plan.state, plan.answer);
  return answer;
}

}  // namespace

Command command_orchestrate() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "orchestrate";
  command.summary = "the next ready command sequence for a ranked target, given the evidence";
  command.examples = {"orchestrate --profile p.json --workspace-root workspaces",
                      "orchestrate --trace-profile captures/smoke.trace-profile.json --workspace-root workspaces --rank 2",
                      "orchestrate --profile p.json --workspace-root workspaces --trace-metadata captures/smoke.metadata.json"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--profile", flags->profile, "record of profile")->type_name("FILE");
    app.add_option("--trace-profile", flags->trace_profile, "record of trace-profile")->type_name("FILE");
    app.add_option("--workspace-root", flags->workspace_root, "folder for workspaces, one a target")->required()->type_name("DIR");
    app.add_option("--rank", flags->rank, "which candidate")->check(whole_number_check(1, 1'000'000));
    app.add_option("--trace-metadata", flags->trace_metadata, "PREFIX.metadata.json of a capture")->type_name("FILE");
  };
  command.run = [flags](Context& context) { return run_orchestrate(context, *flags); };
  return command;
}

}  // namespace kl::app
