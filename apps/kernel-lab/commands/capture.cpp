#include "session.hpp"
#include "stages.hpp"
#include "trainer_folders.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/shell.hpp>
#include <lab/integration/capture.hpp>
#include <lab/integration/trainer_client.hpp>
#include <lab/report/trace_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl::app {
namespace {

struct Flags {
  std::string preset, output, tool = "own", workspace;
  double time_budget = 20;
  int64_t steps = 0;
  bool quick = false, include_eval = false, tensors = false;
  std::vector<std::string> settings, program;
  uint64_t seed = 1;
};

// FIELD=VALUE of the trainer; it knows the field's type.
Result<Json> overrides_of(const std::vector<std::string>& settings) {
  Json overrides = Json::object();
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      return make_error(Status::usage, fmt::format("--set {} is not FIELD=VALUE", setting), "write --set rows=8");
    const std::string text = setting.substr(equals + 1);
    const Json number = Json::parse(text, nullptr, false);
    overrides[setting.substr(0, equals)] = number.is_number() ? number : Json(text);
  }
  return overrides;
}

// The newest bench of this very source.
Result<Json> newest_bench(const Context& context, const CaptureRequest& request) {
  KL_TRY(const std::string hash, sha256_file(request.candidate));
  KL_TRY(const auto reading, Ledger(context.ledger).query({.target = request.target->key,
                                                           .engine = std::string(request.engine->name()),
                                                           .kernel = hash,
                                                           .event_types = {"bench"},
                                                           .newest = 1}));
  return reading.events.empty() ? Json() : reading.events.back().details.value("record", Json());
}

// --preset, else the only one that the program has for this engine.
Result<std::string> preset_of_program(const CaptureRequest& request, const std::string& flag) {
  if (!flag.empty()) return flag;
  const TrainerClient trainer(request.trainer, request.trainer_arguments);
  KL_TRY(const auto presets, trainer.presets());
  std::vector<std::string> names;
  for (const auto& preset : presets)
    if (!preset.device || *preset.device == request.engine->name()) names.push_back(preset.name);
  if (names.size() == 1) return names.front();
  return make_error(Status::usage, fmt::format("{} has {} presets for engine {}: {}", trainer.program().string(), names.size(),
                                               request.engine->name(), fmt::join(names, ", ")),
                    "choose one with --preset");
}

Result<Answer> run_capture(Context& context, const Flags& flags) {
  const TrainerFolders folders;
  context.progress = told_by_stage(context);
  const Catalogue catalogue = Catalogue::search(context.target_path);
  CaptureRequest request;
  Target target;
  std::string workspace_preset;
  if (!flags.workspace.empty()) {
    KL_TRY(const Workspace workspace, open_workspace(flags.workspace, catalogue));
    KL_TRY(target, catalogue.find(workspace.record.target));
    if (workspace.record.engine != context.engine->name() && context.engine_chosen)
      return make_error(Status::usage, fmt::format("{} is a workspace of engine {}", flags.workspace, workspace.record.engine), "leave --engine out");
    KL_TRY(context.engine, find_engine(workspace.record.engine));
    request.target = &target;
    request.candidate = workspace.kernel();
    request.workspace = workspace.folder.string();
    workspace_preset = workspace.record.context.preset;
  }
  request.engine = context.engine;
  request.catalogue = &catalogue;
  if (flags.program.empty()) {
    KL_TRY(request.preset, choose_preset(context, flags.preset, workspace_preset));
  } else {
    request.trainer = flags.program.front();
    request.trainer_arguments.assign(flags.program.begin() + 1, flags.program.end());
    KL_TRY(request.preset, preset_of_program(request, flags.preset));
    request.filed_under = fmt::format("external:{}", request.trainer.stem().string());
  }
  KL_TRY(request.overrides, overrides_of(flags.settings));
  KL_CHECK(TrainerClient(request.trainer.empty() ? TrainerClient::builtin() : request.trainer, request.trainer_arguments)
               .accepts(request.preset, request.overrides));
  if (request.target != nullptr) {
    KL_TRY(request.bench, newest_bench(context, request));
  }
  request.output = flags.output;
  request.tool = flags.tool;
  request.window_seconds = flags.time_budget;
  request.steps = flags.steps;
  request.quick = flags.quick;
  request.include_eval = flags.include_eval;
  request.tensors = flags.tensors;
  request.seed = flags.seed;
  request.progress = context.progress;
  KL_TRY(const CaptureRecord record, capture(request));

  std::optional<double> covered;
  if (record.status == Status::ok) covered = record.covered_share;
  KL_TRY(const LedgerEvent event, record_event(context, "capture", record, "covered_share", covered, {{"record", to_json(record)}}));
  Answer answer;
  answer.record = to_json(record);
  answer.text = capture_text(record, context.style);
  answer.exit_code = exit_code_of(record.status);
  if (record.status == Status::ok)
    answer.next = command_line(context, fmt::format("trace-profile --metadata {}", shell_word(metadata_file(request.output).string())));
  return answer;
}

}  // namespace

Command command_capture() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "capture";
  command.summary = "a trace of the real trainer over steady steps";
  command.examples = {"capture --output results/traces/smoke --preset smoke", "capture --output mine/trace --workspace mine --quick",
                      "capture --output t --preset cpu-balanced --steps 50 --set rows=2",
                      "capture --output t --preset smoke --quick --tensors",
                      "capture --output t --preset tiny -- python3 my_trainer.py   (speaks docs/trainer-protocol.md)"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--output", flags->output, "prefix: writes PREFIX.sqlite and PREFIX.metadata.json")->required()->type_name("PREFIX");
    app.add_option("--preset", flags->preset, "trainer operating point")->type_name("NAME");
    auto* budget = app.add_option("--time-budget", flags->time_budget, "seconds of steady steps")->check(seconds_check())->type_name("S");
    auto* steps = app.add_option("--steps", flags->steps, "captured steps, instead of a time")->default_str("")->check(whole_number_check(1, 100'000))->excludes(budget);
    app.add_flag("--quick", flags->quick, "8 steps")->excludes(steps)->excludes(budget);
    app.add_option("--tool", flags->tool, "own, or nsys")->check(CLI::IsMember({"own", "nsys"}));
    app.add_option("--workspace", flags->workspace, "run this workspace's kernel in its seam")->type_name("DIR");
    app.add_flag("--include-eval", flags->include_eval, "evaluate behind the window");
    app.add_flag("--tensors", flags->tensors, "also keep what the seams are called with in PREFIX.tensors/, for verify --tensors");
    app.add_option("--set", flags->settings, "preset field of the trainer; repeatable")->type_name("FIELD=VALUE")->allow_extra_args(false);
    app.add_option("--seed", flags->seed, "initial weights and order of tokens")->check(seed_check());
    app.add_option("program", flags->program, "after --: another trainer that speaks docs/trainer-protocol.md")->type_name("CMD");
  };
  command.run = [flags](Context& context) { return run_capture(context, *flags); };
  return command;
}

}  // namespace kl::app
