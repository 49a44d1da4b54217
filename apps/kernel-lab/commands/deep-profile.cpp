#include "session.hpp"

#include <lab/bench/deep_profile.hpp>
#include <lab/core/near.hpp>
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

struct Profiled {
  std::string target, preset, engine;
};

// The target of a rank, or of a name, among the candidates of a trace-profile.
Result<Profiled> profiled_target(const Flags& flags, const Catalogue& catalogue) {
  const std::string wrong = fmt::format("{} is no record of trace-profile", flags.trace_profile);
  const std::string remedy = "kernel-lab trace-profile --trace FILE --output FILE writes one";
  auto text = read_file(flags.trace_profile);
  if (!text.ok()) return make_error(Status::usage, text.error().what, remedy);
  auto json = parse_json(*text, flags.trace_profile);
  if (!json.ok()) return make_error(Status::usage, fmt::format("{}: {}", wrong, json.error().what), remedy);
  const auto text_of = [](const Json& object, const char* key) {
    const auto it = object.is_object() ? object.find(key) : object.end();
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  if (text_of(*json, "schema") != "trace-profile" || !json->contains("candidates") || !(*json)["candidates"].is_array())
    return make_error(Status::usage, fmt::format("{}: its schema is \"{}\"", wrong, text_of(*json, "schema")), remedy);
  Profiled found{"", text_of(*json, "preset"), text_of(*json, "engine")};
  if (found.preset.empty())
    return make_error(Status::usage, fmt::format("{} names no preset, so no shapes are known", flags.trace_profile),
                      "profile a trace that kernel-lab capture wrote");
  const Json& candidates = (*json)["candidates"];
  std::string wanted = flags.target;
  if (!wanted.empty()) {
    KL_TRY(const Target target, catalogue.find(wanted));
    wanted = target.key;
  }
  std::vector<std::string> names;
  for (const Json& candidate : candidates) {
    names.push_back(text_of(candidate, "target"));
    const Json rank = candidate.is_object() ? candidate.value("rank", Json()) : Json();
    const bool this_one = wanted.empty() ? rank.is_number_integer() && rank.get<int64_t>() == flags.rank : names.back() == wanted;
    if (this_one) found.target = names.back();
  }
  if (!found.target.empty()) return found;
  if (!wanted.empty())
    return make_error(Status::usage, fmt::format("{} is not among the candidates of {}", wanted, flags.trace_profile),
                      suggestion(wanted, names));
  return make_error(Status::usage, fmt::format("{} has no candidate of rank {}", flags.trace_profile, flags.rank),
                    names.empty() ? "its trace holds no candidate" : fmt::format("--rank 1 to {}", names.size()));
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
  KL_TRY(const Profiled profiled, profiled_target(flags, catalogue));
  if (!profiled.engine.empty() && profiled.engine != context.engine->name()) {
    if (context.engine_chosen)
      return make_error(Status::usage, fmt::format("{} is of engine {}, not {}", flags.trace_profile, profiled.engine, context.engine->name()),
                        "leave --engine out");
    KL_TRY(context.engine, find_engine(profiled.engine));
  }
  KL_CHECK(require_usable(context));
  KL_TRY(const Target target, catalogue.find(profiled.target));
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
    auto* rank = app.add_option("--rank", flags->rank, "candidate of that rank")->check(CLI::PositiveNumber);
    app.add_option("--target", flags->target, "that candidate instead")->excludes(rank)->type_name("KEY");
    app.add_option("--time-budget", flags->time_budget, "seconds of calls")->check(CLI::PositiveNumber)->type_name("S");
    app.add_option("--output", flags->output, "default: beside the trace-profile")->type_name("FILE");
  };
  command.run = [flags](Context& context) { return run_deep_profile(context, *flags); };
  return command;
}

}  // namespace kl::app
