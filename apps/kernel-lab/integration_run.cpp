#include "integration_run.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/shell.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace kl::app {
namespace {

// The newest bench of this very source on this preset, whose gain the Amdahl check uses.
Result<std::optional<stats::Interval>> bench_interval(const Context& context, const Session& session,
                                                      const std::string& kernel_hash, const std::string& against) {
  KL_TRY(const auto reading, Ledger(context.ledger).query({.target = session.target.key,
                                                           .engine = std::string(context.engine->name()),
                                                           .preset = session.preset,
                                                           .kernel = kernel_hash,
                                                           .event_types = {"bench"}}));
  std::optional<stats::Interval> newest;
  for (const auto& event : reading.events) {
    if (event.details.value("against", "") != against || !event.metric_value) continue;
    if (auto interval = from_json<stats::Interval>(event.details["record"].value("t95", Json::object())); interval.ok())
      newest = *interval;
  }
  return newest;
}

// By --pairs, or by its older spelling.
int last_look(const IntegrationFlags& flags) { return stats::rounded_look(flags.repeats > 0 ? flags.repeats : flags.pairs); }

// A name without a folder is searched in PATH; a path stays what it is wherever the legs run.
fs::path trainer_program(const IntegrationFlags& flags) {
  if (flags.trainer == "builtin") return TrainerClient::builtin();
  const fs::path given = flags.trainer;
  std::error_code code;
  return given.has_parent_path() || fs::exists(given, code) ? fs::absolute(given) : given;
}

}  // namespace

void add_integration_flags(CLI::App& app, IntegrationFlags& flags) {
  app.add_option("--workspace", flags.workspace, "workspace folder")->required()->type_name("DIR");
  app.add_option("--trainer", flags.trainer, "builtin, or a program that speaks docs/trainer-protocol.md")->type_name("PROGRAM");
  auto* budget = app.add_option("--time-budget", flags.time_budget, "seconds of steady training per leg (default: calibrated)")->default_str("")
                     ->check(seconds_check())->type_name("S");
  app.add_option("--steps", flags.steps, "timed steps per leg, instead of a time")->default_str("")->check(whole_number_check(1, 1'000'000))->excludes(budget);
  auto* pairs = app.add_option("--pairs", flags.pairs, "the last look: 4, 8, 12 or 16 (others are rounded up)")->check(whole_number_check(1, 16));
  app.add_option("--repeats", flags.repeats, "older spelling of --pairs; below 4 is raised to 4")->default_str("")
      ->check(whole_number_check(1, 16))->excludes(pairs);
  app.add_option("--against", flags.against, "champion or reference")->check(CLI::IsMember({"champion", "reference"}));
  app.add_flag("--no-checkpoint", flags.no_checkpoint, "legs write no checkpoints");
  app.add_flag("--benchmark-skip-eval", flags.skip_eval, "legs end without an evaluation");
  app.add_option("--seed", flags.seed, "initial weights and order of tokens")->check(seed_check());
}

RepeatedFlags repeated_flags(const IntegrationFlags& flags) {
  const IntegrationFlags usual;
  RepeatedFlags repeated;
  if (last_look(flags) != usual.pairs) repeated.pairs = fmt::format(" --pairs {}", last_look(flags));
  std::string& others = repeated.others;
  if (flags.trainer != usual.trainer) others += " --trainer " + shell_word(flags.trainer);
  if (flags.time_budget > 0) others += fmt::format(" --time-budget {:g}", flags.time_budget);
  if (flags.steps > 0) others += fmt::format(" --steps {}", flags.steps);
  if (flags.no_checkpoint) others += " --no-checkpoint";
  if (flags.skip_eval) others += " --benchmark-skip-eval";
  if (flags.seed != usual.seed) others += fmt::format(" --seed {}", flags.seed);
  return repeated;
}

Outcome require_trainer(const Context& context, const Session& session, const IntegrationFlags& flags) {
  if (session.target.seam.empty()) return {};  // told so, whichever trainer was asked for
  return TrainerClient(trainer_program(flags)).can_run(session.preset, context.engine->name());
}

Outcome require_verified(const Context& context, const Session& session) {
  // A target without a seam there is told so, verified or not.
  KL_TRY(const bool verified, is_verified(context, session));
  if (!verified && !session.shapes.empty())
    return make_error(Status::refused, fmt::format("{} has not passed verify on preset {} as it is now", session.kernel().string(), session.preset),
                      command_line(context, fmt::format("verify --workspace {} --quick --preset {}", shell_word(session.workspace.folder.string()), session.preset)));
  return {};
}

Result<RecordedAb> run_and_record_ab(Context& context, const Session& session, const IntegrationFlags& flags) {
  KL_TRY(const std::string kernel_hash, sha256_file(session.kernel()));
  if (flags.repeats > 0 && flags.repeats < 4) context.note("--repeats below 4 is raised to 4 pairs");

  IntegrationRequest request;
  request.engine = context.engine;
  request.catalogue = &session.catalogue;
  request.target = &session.target;
  request.candidate = session.kernel();
  request.against = flags.against;
  request.workspace = session.workspace.folder.string();
  request.preset = session.preset;
  if (flags.trainer != "builtin") request.trainer = trainer_program(flags);
  request.leg_seconds = flags.time_budget;
  request.steps = flags.steps;
  request.max_pairs = last_look(flags);
  if (session.calibration) {
    if (const auto noise = session.calibration->aa.find(session.preset); noise != session.calibration->aa.end()) {
      request.s_aa = noise->second.s_aa;
      if (request.leg_seconds == 0 && request.steps == 0) request.steps = noise->second.steps_per_leg;
    }
  }
  KL_TRY(request.bench, bench_interval(context, session, kernel_hash, flags.against));
  request.skip_eval = flags.skip_eval;
  request.no_checkpoint = flags.no_checkpoint;
  request.seed = flags.seed;
  KL_TRY(const Assessment before, assess_now(context, session.catalogue, session.target, session.preset,
                                             session.kernel(), session.workspace.folder.string()));
  request.tries = before.tries + 1;
  request.samples = context.samples().root();
  request.progress = context.progress;
  if (!request.s_aa)
    context.note(fmt::format("no A/A noise on file for preset {}: 8 A/A pairs run first", session.preset));
  const IntegrationRecord record = integration_ab(request);

  Json details = {{"record", to_json(record)}, {"against", flags.against}, {"seam_share", record.seam_share},
                  {"delta_eff", record.look.delta}};
  // A baseline that does not run alone says nothing of the candidate: it is no try, and no evidence.
  if (record.baseline_failed) return RecordedAb{record, ""};
  const bool measured = !record.pairs.empty();
  KL_TRY(const LedgerEvent event,
         record_event(context, "integration-ab", record, "speed_up",
                      measured ? std::optional(record.look.speed_up) : std::nullopt, details));
  return RecordedAb{record, event.id};
}

}  // namespace kl::app
