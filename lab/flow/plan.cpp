#include <lab/flow/plan.hpp>

#include <lab/core/shell.hpp>
#include <lab/flow/external.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kl {
namespace {

struct LevelRow {
  std::string_view state, level;
};
// docs/states.md shows this table beside the answers.
constexpr std::array kLevels = {
    LevelRow{"promoted", "candidate"},  // the next candidate starts from it
    LevelRow{"stale", "candidate"},
    LevelRow{"integration-validated", "integration-validated"},
    LevelRow{"integration-regressed", "deprioritized"},
    LevelRow{"integration-mixed", "promotion-ready"},
    LevelRow{"integration-equivalent", "deprioritized"},
    LevelRow{"integration-tested", "promotion-ready"},
    LevelRow{"trace-deprioritized", "deprioritized"},
    LevelRow{"ready-for-integration-test", "promotion-ready"},
    LevelRow{"trace-backed", "trace-backed"},
    LevelRow{"verified-only", "verified-only"},
    LevelRow{"no-evidence", "candidate"},
};

bool has(const std::vector<EvidenceLine>& lines, std::string_view type, std::string_view status = "ok") {
  return std::any_of(lines.begin(), lines.end(), [&](const EvidenceLine& line) {
    return line.counts && line.event_type == type && (status.empty() || line.status == status);
  });
}

std::string metadata_of(const Assessment& now, const PlanRequest& request) {
  if (!request.trace_metadata.empty()) return request.trace_metadata;
  return now.capture_file.empty() ? fmt::format("captures/{}.metadata.json", request.preset) : now.capture_file;
}

std::string trace_profile_of(const Assessment& now, const PlanRequest& request) {
  if (request.profile_is_trace) return request.profile_file;
  if (!now.trace_profile_file.empty()) return now.trace_profile_file;
  std::string file = metadata_of(now, request);
  const std::string_view ending = ".metadata.json";
  if (file.ends_with(ending)) file.resize(file.size() - ending.size());
  return file + ".trace-profile.json";
}

std::string without_prefix(const std::string& command, const PlanRequest& request) {
  return command.substr(std::min(command.size(), request.command_prefix.size() + 1));
}

}  // namespace

std::string plan_level(const Assessment& now, const PlanRequest& request) {
  if (now.answer == "needs-integration-adapter") return "needs-integration-adapter";
  std::string level = "candidate";
  for (const LevelRow& row : kLevels)
    if (now.state == row.state) level = row.level;
  const bool traced = request.trace_metadata_ok || request.profile_is_trace;
  if (traced && level == "candidate" && now.state == "no-evidence") return "trace-backed";
  if (traced && level == "verified-only") return "promotion-ready";
  return level;
}

PlanRecord make_plan(const Assessment& now, const PlanRequest& request) {
  auto plan = new_record<PlanRecord>();
  plan.engine = now.engine;
  plan.target = now.target;
  plan.preset = request.preset;
  plan.workspace = request.workspace;
  plan.candidate = request.candidate;
  plan.state = now.state;
  plan.answer = now.answer;
  plan.level = plan_level(now, request);
  plan.status = Status::ok;
  const auto add = [&](bool done, const std::string& command, std::string why) {
    plan.steps.push_back({request.command_prefix + " " + command, std::move(why), done ? "done" : "later"});
  };
  const std::string metadata = metadata_of(now, request), trace = trace_profile_of(now, request);
  std::string prefix = metadata;
  if (prefix.ends_with(".metadata.json")) prefix.resize(prefix.size() - std::string_view(".metadata.json").size());
  const bool captured = request.trace_metadata_ok || request.profile_is_trace || has(now.trace, "capture") || now.seam_share.has_value();
  const bool traced = request.profile_is_trace || has(now.trace, "trace-profile") || (now.seam_share && !request.trace_metadata_ok);
  const bool external = is_external(request.preset);
  if (external) {
    add(traced, fmt::format("trace-profile --trace {} --preset {}", shell_word(request.imported_trace), request.preset),
        "shares, split and ranking of that trace");
  } else {
    add(captured, fmt::format("capture --preset {} --output {}", request.preset, shell_word(prefix)), "where does the step's time go?");
    add(traced, fmt::format("trace-profile --metadata {}", shell_word(metadata)), "shares, split and ranking of that trace");
  }
  add(!now.relevance.empty(), "auto-review --trace-profile " + shell_word(trace), "is the target relevant?");
  if (!request.trace_metadata.empty() && now.relevance_by != "a person")
    add(false, fmt::format("review-trace --target {} --metadata {} --relevance {{none,low,medium,high}} --notes WHY", now.target, shell_word(metadata)),
        "a person's judgement of that trace, if yours differs");
  if (now.answer == "needs-deep-profile" || !now.diagnosis.empty())
    add(!now.diagnosis.empty(), fmt::format("deep-profile --trace-profile {} --target {}", shell_word(trace), now.target), "what is it bound by?");
  if (now.answer == "needs-manual-review") add(false, without_prefix(now.next.command, request), now.next.why);
  if (request.candidate.starter == "starter-ready") {
    const std::string in = " --workspace " + shell_word(request.workspace);
    add(request.workspace_exists, fmt::format("extract --profile {} --rank {}{}", shell_word(request.profile_file), request.candidate.rank, in),
        "a workspace from the champion");
    if (!external) add(has(now.heuristic, "bench", ""), "bench" + in, "is the kernel faster alone?");
    add(has(now.heuristic, "verify"), "verify" + in, "is it right?");
    if (external) {
      if (now.answer == "needs-integration-adapter") add(false, without_prefix(now.next.command, request), now.next.why);
    } else if (plan.level != "needs-integration-adapter") {
      add(has(now.integration, "integration-ab", "validated"), "integration-ab" + in + " --preset " + request.preset, "does the trainer get faster?");
      add(false, fmt::format("promotion-check --target {}{}", now.target, in), "the gate");
      add(false, "promote" + in, "shows the patch; --apply makes it the champion");
    }
  }
  if (plan.level == "deprioritized") plan.steps.clear();
  if (plan.level == "deprioritized") add(false, "list-targets --status", now.next.why);
  for (PlanStep& step : plan.steps)
    if (step.state == "later" && step.command.find(" review-trace ") == std::string::npos) {
      step.state = "next";
      break;
    }
  return plan;
}

}  // namespace kl
