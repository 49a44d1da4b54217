#include "session.hpp"
#include "stages.hpp"
#include "trainer_folders.hpp"

#include <lab/bench/copy_ceiling.hpp>
#include <lab/bench/gemm_rate.hpp>
#include <lab/bench/steadiness.hpp>
#include <lab/core/cache_size.hpp>
#include <lab/core/clock.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/shell.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <lab/integration/aa.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/integration_text.hpp>
#include <lab/report/table.hpp>
#include <lab/report/verdict.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kl::app {
namespace {

// A leg must hold so many steps within so many seconds for its preset to be this machine's default.
constexpr int64_t kSteadySteps = 30;
constexpr double kLegBudgetSeconds = 20;

struct Flags {
  std::string preset;
  bool aa = false, quick = false;
};

// Those of the engine, of the family of the first of them, weakest first.
std::vector<TrainerPreset> candidates(const std::vector<TrainerPreset>& presets, std::string_view engine) {
  for (const auto& preset : presets)
    if (!preset.device || *preset.device == engine) return presets_by_strength(presets, engine, preset.family);
  return {};
}

// Of the probe that ended the choice: the next stronger preset, and why it is not the default.
std::string next_stronger_text(const Json& probes) {
  const Json& last = probes.back();
  if (last.value("fits", false)) return "next stronger: none, it is the strongest of its family\n";
  const std::string why = last.value("step_ns", 0.0) > 0
                              ? fmt::format("{} steps of it take {:.3g} s, more than {} s", kSteadySteps,
                                            last.value("leg_seconds_for_30_steps", 0.0), kLegBudgetSeconds)
                              : last.value("reason", "");
  return fmt::format("next stronger: {}, not chosen: {}\n", last.value("preset", ""), why);
}

// The strongest preset whose leg fits the time budget, from one short probing leg each, up to the first that does not.
Result<std::string> default_preset(const Context& context, const Catalogue& catalogue, Json& probes) {
  const TrainerClient trainer(TrainerClient::builtin());
  KL_TRY(const auto presets, trainer.presets());
  std::string chosen;
  for (const auto& preset : candidates(presets, context.engine->name())) {
    AaRequest probe;
    probe.engine = context.engine;
    probe.catalogue = &catalogue;
    probe.preset = preset.name;
    probe.steps = 3;
    probe.pairs = 1;
    probe.warmup_steps = 2;
    report(context.progress, {0, 0, "", fmt::format("probing preset {}", preset.name)});
    const AaRecord record = run_aa(probe);
    const bool measured = record.step_ns > 0;
    const double leg_seconds = record.step_ns * 1e-9 * static_cast<double>(kSteadySteps);
    const bool fits = measured && leg_seconds <= kLegBudgetSeconds;
    probes.push_back({{"preset", preset.name}, {"strength", preset.strength}, {"status", to_string(record.status)},
                      {"step_ns", record.step_ns}, {"leg_seconds_for_30_steps", leg_seconds}, {"fits", fits},
                      {"reason", record.reason}});
    if (!fits) break;
    chosen = preset.name;
  }
  if (chosen.empty())
    return make_error(Status::unstable, fmt::format("no preset holds {} steps in {} s here", kSteadySteps, kLegBudgetSeconds),
                      "name one with --preset, and expect long legs");
  return chosen;
}

// What the clocks say of the A/A pairs. The device's own pace, its power limit with it, is what they measure.
std::string disturbance_of_host(ClockSample before, ClockSample after) {
  before.device_throttled.reset();
  after.device_throttled.reset();
  return disturbance(before, after, 0);
}

// One short run, before anything long: a preset that does not fit has no calibration.
Outcome check_fits(const Context& context, const Catalogue& catalogue, const std::string& preset) {
  KL_CHECK(TrainerClient(TrainerClient::builtin()).can_run(preset, context.engine->name()));
  AaRequest probe;
  probe.engine = context.engine;
  probe.catalogue = &catalogue;
  probe.preset = preset;
  probe.steps = 1;
  probe.pairs = 0;
  probe.warmup_steps = 1;
  report(context.progress, {0, 0, "", fmt::format("does preset {} run here?", preset)});
  const AaRecord record = run_aa(probe);
  if (record.status == Status::ok) return {};
  return make_error(record.status, fmt::format("preset {} does not run here: {}", preset, record.reason), record.remedy);
}

Outcome add_noise(const Context& context, const Catalogue& catalogue, Calibration& calibration, std::string& text) {
  AaRequest request;
  request.engine = context.engine;
  request.catalogue = &catalogue;
  request.preset = calibration.preset;
  request.samples = context.samples().root();
  request.progress = context.progress;
  const ClockSampler clocks = clocks_of(*context.engine);
  const ClockSample before = clocks();
  AaRecord record = run_aa(request);
  if (record.status == Status::ok)
    if (const std::string why = disturbance_of_host(before, clocks()); !why.empty())
      record.status = Status::unstable, record.reason = why, record.remedy = kQuietMachine;
  if (record.status != Status::ok && record.status != Status::unstable)
    return make_error(record.status, record.reason, record.remedy);
  calibration.status = record.status;
  calibration.reason = record.reason;
  calibration.remedy = record.remedy;
  calibration.aa[record.preset] = {record.s_aa, static_cast<int64_t>(record.log_ratios.size()), record.delta_eff,
                                   record.leg_seconds, record.steps_per_leg, record.log_ratios, record.load};
  calibration.seam_share[record.preset] = record.seam_share;
  calibration.leg_seconds = record.leg_seconds;
  calibration.identity = record.identity;
  text += aa_text(record, context.style);
  return {};
}

// Cold caches only, footprints down and mixes across; --json has everything.
std::string ceilings_text(const Calibration& calibration, const Style& style) {
  std::vector<std::string> headers = {">footprint"};
  std::map<int, size_t> columns;  // percent read → column
  for (const auto& ceiling : calibration.ceilings)
    columns.emplace(static_cast<int>(std::lround(ceiling.read_fraction * 100)), 0);
  for (auto& [percent, column] : columns) {
    column = headers.size();
    headers.push_back(fmt::format(">{} % read", percent));
  }
  std::map<std::string, std::vector<std::string>> rows;
  std::vector<std::string> order;
  for (const auto& ceiling : calibration.ceilings) {
    if (!ceiling.cold) continue;
    const std::string footprint = fmt::format("{:.2g} MB", static_cast<double>(ceiling.footprint_bytes) * 1e-6);
    auto [row, fresh] = rows.try_emplace(footprint, headers.size());
    if (fresh) order.push_back(footprint);
    row->second[0] = footprint;
    row->second[columns.at(static_cast<int>(std::lround(ceiling.read_fraction * 100)))] =
        fmt::format("{:.1f}", ceiling.gb_per_s);
  }
  Table table(headers);
  for (const auto& footprint : order) table.row(rows.at(footprint));
  return "copy ceilings, GB/s, cold caches\n" + table.text(style);
}

// By the engine's own probes where it has a device, else by the host's; answers whether those were the host's.
Result<bool> add_ceilings(const Context& context, bool quick, Calibration& calibration) {
  KL_TRY(auto measured, context.engine->ceilings({quick, context.progress}));
  if (measured) {
    calibration.timer_resolution_ns = measured->timer_resolution_ns;
    calibration.flush_bytes = measured->flush_bytes;
    calibration.ceilings = std::move(measured->ceilings);
    calibration.device = std::move(measured->figures);
    return false;
  }
  CopyProbe probe = copy_probe(quick);
  probe.progress = context.progress;
  calibration.timer_resolution_ns = measure_timer_resolution_ns();
  calibration.flush_bytes = 2 * last_level_cache_bytes();  // what the worker and the probes write
  calibration.ceilings = measure_copy_ceilings(probe);
  calibration.device = measure_host_gemm(quick);
  return true;
}

// On the host the rows that it has alone; on a device one that is unknown says so.
std::string figures_text(const DeviceFigures& f, bool host, const Style& style) {
  Table table({"", ">", ""});
  const auto row = [&](const char* name, const std::optional<double>& value, const char* unit) {
    if (value || !host) table.row({name, value ? fmt::format("{:.4g}", *value) : "unknown", unit});
  };
  row("matrix product, bf16", f.bf16_tflop_per_s, "TFLOP/s");
  row("matrix product, tf32", f.tf32_tflop_per_s, "TFLOP/s");
  row("matrix product, fp32", f.fp32_tflop_per_s, "TFLOP/s");
  row("launch and wait", f.launch_us, "us");
  row("launch, one of many", f.launch_rate_us, "us");
  row("graph launch and wait", f.graph_launch_us, "us");
  row("wait for an idle stream", f.sync_us, "us");
  row("empty event bracket", f.event_bracket_ns, "ns");
  row("step of the device's timer", f.device_clock_ns, "ns");
  const std::optional<double> knee = f.cache_knee_bytes ? std::optional<double>(*f.cache_knee_bytes * 1e-6) : std::nullopt;
  row("warm copies slow down beyond", knee, "MB");
  return (host ? "the host\n" : "the device\n") + table.text(style) + (f.gemm_unknown.empty() ? "" : f.gemm_unknown + "\n");
}

Result<Answer> run_calibrate(Context& context, const Flags& flags) {
  const TrainerFolders folders;
  context.progress = told_by_stage(context);
  KL_CHECK(require_usable(context));
  const Catalogue catalogue = Catalogue::search(context.target_path);
  std::string named;
  if (!flags.preset.empty()) {
    KL_TRY(named, choose_preset(context, flags.preset, ""));
    KL_CHECK(check_fits(context, catalogue, named));
  }
  const int64_t begun_ns = monotonic_ns();
  Calibration calibration = new_record<Calibration>();
  calibration.engine = context.engine->name();
  calibration.fingerprint_class = fingerprint_class(*context.engine);
  calibration.session = current_session();
  calibration.cores = usable_cores();
  calibration.identity.fingerprint_class = calibration.fingerprint_class.hash();
  calibration.status = Status::ok;

  Answer answer;
  Json probes = Json::array();
  KL_TRY(const bool host, add_ceilings(context, flags.quick, calibration));
  answer.text += ceilings_text(calibration, context.style);
  answer.text += figures_text(*calibration.device, host, context.style);
  if (flags.preset.empty()) {
    auto chosen = default_preset(context, catalogue, probes);
    // A device's figures stand by themselves, whether or not the trainer runs there.
    if (!chosen.ok() && (host || flags.aa)) return chosen.error();
    if (chosen.ok()) calibration.preset = calibration.default_preset = *chosen;
    answer.text += chosen.ok() ? fmt::format("default preset: {}\n", *chosen) + next_stronger_text(probes)
                               : fmt::format("no default preset: {}\n", chosen.error().what);
  } else {
    calibration.preset = named;
  }
  if (flags.aa) KL_CHECK(add_noise(context, catalogue, calibration, answer.text));
  calibration.wall_seconds = static_cast<double>(monotonic_ns() - begun_ns) * 1e-9;
  calibration.details = {{"preset_probes", probes}};

  Json details = {{"record", to_json(calibration)}, {"seam_share", Json::object()}};
  if (const auto shares = calibration.seam_share.find(calibration.preset); shares != calibration.seam_share.end())
    details["seam_share"] = shares->second;
  std::optional<double> noise;
  if (const auto aa = calibration.aa.find(calibration.preset); aa != calibration.aa.end()) {
    noise = aa->second.s_aa;
    details["delta_eff"] = aa->second.delta_eff;
  }
  KL_TRY(const LedgerEvent event, record_event(context, "calibration", calibration, "s_aa", noise, details));
  answer.record = to_json(calibration);
  const std::string kept = fmt::format("kept in {}", context.ledger.string());
  answer.text += verdict_line(context.style, calibration.status,
                              calibration.reason.empty() ? kept : fmt::format("{}; {}, where nothing uses its noise and shares", calibration.reason, kept),
                              calibration.remedy);
  answer.exit_code = exit_code_of(calibration.status);
  const bool noise_known = flags.aa && calibration.status == Status::ok;
  answer.next = noise_known || calibration.preset.empty()
                    ? command_line(context, "list-targets")
                    : command_line(context, fmt::format("calibrate{} --aa --preset {}", flags.quick ? " --quick" : "", shell_word(calibration.preset)));
  return answer;
}

}  // namespace

Command command_calibrate() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "calibrate";
  command.summary = "this machine's ceilings, timer floor, A/A noise, leg length, default preset";
  command.examples = {"calibrate", "calibrate --quick", "calibrate --aa --preset cpu-balanced"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--preset", flags->preset, "preset to measure (default: chosen by short probes)")->type_name("NAME");
    app.add_flag("--aa", flags->aa, "also 8 A/A pairs of the trainer: noise, leg length, seam shares");
    app.add_flag("--quick", flags->quick, "fewer footprints and mixes");
  };
  command.run = [flags](Context& context) { return run_calibrate(context, *flags); };
  return command;
}

}  // namespace kl::app
