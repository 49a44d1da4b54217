#include "session.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/bench/deep_profile.hpp>
#include <lab/core/near.hpp>
#include <lab/flow/profile.hpp>
#include <lab/report/deep_profile_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string trace_profile, target, output;
  int64_t rank = 1;
  double time_budget = 5;
};

// The candidate of a rank, or of a name, in a record of trace-profile.
Result<RankedCandidate> chosen_candidate(const Flags& flags, const ReadProfile& profile, const Catalogue& catalogue) {
  if (flags.target.empty()) return candidate_of_rank(profile, flags.rank);
  KL_TRY(const Target target, catalogue.find(flags.target));
  std::vector<std::string> names;
  for (const RankedCandidate& candidate : profile.candidates) {
    if (candidate.target == target.key) return candidate;
    names.push_back(candidate.target);
  }
  return make_error(Status::usage, fmt::format("{} is not among the candidates of {}", target.key, flags.trace_profile),
                    suggestion(target.key, names));
}

// Beside the trace-profile: PREFIX.deep-profile-TARGET.json.
fs::path default_output(const fs::path& trace_profile, const std::string& target) {
  fs::path prefix = trace_profile;
  for (const char* end : {".json", ".trace-profile"})
    if (prefix.extension() == end) prefix.replace_extension();
  return prefix.string() + ".deep-profile-" + target + ".json";
}

Result<Answer> run_deep_profile(Context& context, const Flags& flags) {
  const Catalogue catalogue = Catalogue::search(context.target_path);
  KL_TRY(const ReadProfile profiled, read_profile_of(flags.trace_profile, TraceProfileRecord::kSchema));
  if (profiled.preset.empty())
    return make_error(Status::usage, fmt::format("{} names no preset, so no shapes are known", flags.trace_profile),
                      "profile a trace that kernel-lab capture wrote");
  KL_TRY(const RankedCandidate candidate, chosen_candidate(flags, profiled, catalogue));
  if (!profiled.engine.empty() && profiled.engine != context.engine->name()) {
    if (context.engine_chosen)
      return make_error(Status::usage, fmt::format("{} is of engine {}, not {}", flags.trace_profile, profiled.engine, context.engine->name()),
                        "leave --engine out");
    KL_TRY(context.engine, find_engine(profiled.engine));
  }
  KL_CHECK(require_usable(context));
  KL_TRY(const Target target, catalogue.find(candidate.target));
  DeepProfileRequest request;
  request.engine = context.engine;
  request.target = &target;
  KL_TRY(request.preset, choose_preset(context, profiled.preset, ""));
  KL_TRY(request.champion, champion_source(context, target));
  KL_TRY(request.shapes, seam_shapes(target, request.preset));
  KL_TRY(const auto calibration, calibration_on_file(context, catalogue, ""));
  if (calibration) {
    request.ceilings = calibration->ceilings;
    if (calibration->device) request.fp32_tflop_per_s = calibration->device->fp32_tflop_per_s;
  }
  request.seconds = flags.time_budget;
  request.progress = context.progress;
  DeepProfileRecord record = deep_profile(request);
  KL_TRY(record.identity, identity_of_preset(context, catalogue, request.preset));
  record.trace_profile = fs::absolute(flags.trace_profile).lexically_normal().string();
  const fs::path output = flags.output.empty() ? default_output(flags.trace_profile, target.key) : fs::path(flags.output);
  record.output_file = fs::absolute(output).lexically_normal().string();
  KL_CHECK(make_directories(fs::path(record.output_file).parent_path()));
  KL_CHECK(write_file_atomic(record.output_file, dump_pretty(to_json(record)) + "\n"));
  KL_TRY(const LedgerEvent event,
         record_event(context, "deep-profile", record, "confidence",
                      record.status == Status::ok ? std::optional(record.confidence) : std::nullopt, {{"record", to_json(record)}}));
  Answer answer;
  answer.record = to_json(record);
  answer.text = deep_profile_text(record, context.style) + "         " + record.output_file + "\n";
  answer.exit_code = exit_code_of(record.status);
  if (record.status == Status::ok) answer.next = command_line(context, fmt::format("promotion-check --target {}", target.key));
  return answer;
}

}  // namespace

Command command_deep_profile() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "deep-profile";
  command.summary = "what is a seam's champion bound by? counters, or a roofline";
  command.examples = {"deep-profile --trace-profile t/smoke.trace-profile.json",
                      "deep-profile --trace-profile t/smoke.trace-profile.json --target rmsnorm --time-budget 10"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--trace-profile", flags->trace_profile, "record of trace-profile")->required()->type_name("FILE");
    auto* rank = app.add_option("--rank", flags->rank, "candidate of that rank")->check(whole_number_check(1, 1'000'000));
    app.add_option("--target", flags->target, "that candidate instead")->excludes(rank)->type_name("KEY");
    app.add_option("--time-budget", flags->time_budget, "seconds of calls")->check(seconds_check())->type_name("S");
    app.add_option("--output", flags->output, "default: beside the trace-profile")->type_name("FILE");
  };
  command.run = [flags](Context& context) { return run_deep_profile(context, *flags); };
  return command;
}

}  // namespace kl::app
