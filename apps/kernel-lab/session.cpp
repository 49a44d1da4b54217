#include "session.hpp"

#include <lab/build/builder.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/near.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <lab/flow/evidence.hpp>
#include <lab/flow/external.hpp>
#include <lab/integration/seam_libraries.hpp>
#include <lab/ledger/git_state.hpp>
#include <lab/verify/harness_hash.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl::app {
namespace {

TrainerClient builtin_trainer() { return TrainerClient(TrainerClient::builtin()); }

Result<std::vector<LedgerEvent>> calibration_events(const Context& context) {
  KL_TRY(auto reading, Ledger(context.ledger).query({.engine = std::string(context.engine->name()),
                                                     .fingerprint_class = fingerprint_class(*context.engine).hash(),
                                                     .event_types = {"calibration"}}));
  return std::move(reading.events);
}

// Hash of every champion of the preset's seams, as `seams` of calibration events.
// `seam`: of the path that is opened for it, where the preset's own has it not.
Result<SeamLibraries> preset_libraries(const Context& context, const Catalogue& catalogue, const std::string& preset,
                                       const std::string& seam = {}) {
  KL_TRY(const TrainerPath path, builtin_trainer().path(preset, Json::object(), seam));
  return champion_libraries(*context.engine, Builder(*context.engine), catalogue, path.seams);
}

// Presets of this engine that run the target's seam as they are: the weakest first, those of the
// preset's family before others.
Result<std::vector<std::string>> presets_on_path(const Context& context, const Target& target,
                                                 const std::string& preset) {
  KL_TRY(auto presets, builtin_trainer().presets());
  KL_TRY(const TrainerPreset mine, builtin_trainer().preset(preset));
  std::erase_if(presets, [&](const TrainerPreset& other) {
    return other.device && *other.device != context.engine->name();
  });
  std::stable_sort(presets.begin(), presets.end(), [&](const TrainerPreset& a, const TrainerPreset& b) {
    const bool a_kin = a.family == mine.family, b_kin = b.family == mine.family;
    return a_kin != b_kin ? a_kin : a.strength < b.strength;
  });
  std::vector<std::string> names;
  for (const auto& other : presets) {
    KL_TRY(const auto seams, builtin_trainer().seams(other.name));
    if (const TrainerSeam* seam = seam_of(seams, target); seam != nullptr && seam->on_path())
      names.push_back(other.name);
  }
  return names;
}

// The default preset that this machine's newest probes chose; where none ever did, the one that the
// newest calibration was asked for. Empty: nothing was calibrated.
Result<std::string> calibrated_default(const Context& context) {
  KL_TRY(const auto events, calibration_events(context));
  std::string chosen, named;
  for (const auto& event : events) {
    const std::string preset = event.details.value("record", Json::object()).value("default_preset", "");
    if (!preset.empty()) chosen = preset;
    if (!event.preset.empty()) named = event.preset;
  }
  return chosen.empty() ? named : chosen;
}

constexpr const char* kSmallestPreset = "smoke";

}  // namespace

Outcome require_usable(const Context& context) { return context.engine->usable(); }

Outcome require_device(const Context& context, const std::string& device) {
  KL_CHECK(require_usable(context));
  if (device == "auto" || device == context.engine->name() || device == "0") return {};
  const std::vector<std::string> known = {"auto", std::string(context.engine->name()), "0"};
  if (auto engine = find_engine(device); engine.ok())
    return make_error(Status::usage, fmt::format("--device {} is not a device of engine {}", device, context.engine->name()),
                      fmt::format("use --engine {}", device));
  return make_error(Status::usage, fmt::format("unknown device '{}'", device), suggestion(device, known));
}

Result<fs::path> champion_source(const Context& context, const Target& target) {
  if (const auto champion = target.champion(*context.engine)) return *champion;
  return no_champion(target, *context.engine);
}

Result<std::optional<Calibration>> calibration_on_file(const Context& context, const Catalogue& catalogue,
                                                       const std::string& preset) {
  KL_TRY(const auto events, calibration_events(context));
  if (events.empty()) return std::optional<Calibration>();
  Identity now;
  if (!preset.empty()) {
    KL_TRY(now, identity_of_preset(context, catalogue, preset));
  }
  std::optional<Calibration> known;
  for (const auto& event : events) {
    const auto found = from_json<Calibration>(event.details.value("record", Json::object()));
    if (!found.ok()) continue;
    if (!known) known = Calibration{};
    if (!found->ceilings.empty()) known->ceilings = found->ceilings;
    if (found->device) known->device = found->device;
    if (!found->default_preset.empty()) known->default_preset = found->default_preset;
    if (event.preset != preset || !is_current(event, now) || event.status != to_string(Status::ok)) continue;
    for (const auto& [name, noise] : found->aa) known->aa[name] = noise;
    for (const auto& [name, shares] : found->seam_share) known->seam_share[name] = shares;
  }
  return known;
}

Result<std::string> choose_preset(const Context& context, const std::string& flag, const std::string& workspace_preset) {
  std::string chosen = !flag.empty() ? flag : workspace_preset;
  if (is_external(chosen))
    return make_error(Status::usage, fmt::format("{} is an imported trace: the lab cannot run the program it is of", chosen),
                      fmt::format("give a preset of the lab's trainer (--preset {}; `kernel-lab-train presets` lists them), or let your "
                                  "trainer join (docs/trainer-protocol.md)", kSmallestPreset));
  if (chosen.empty()) {
    KL_TRY(chosen, calibrated_default(context));
  }
  if (chosen.empty()) {
    chosen = kSmallestPreset;
    context.note("no calibrated default preset on this machine: using smoke (kernel-lab calibrate chooses one)");
  }
  KL_TRY(const TrainerPreset found, builtin_trainer().preset(chosen));
  return found.name;
}

Result<std::string> choose_filing_preset(const Context& context, const std::string& flag, const std::string& workspace_preset) {
  const std::string& given = !flag.empty() ? flag : workspace_preset;
  if (!is_external(given)) return choose_preset(context, flag, workspace_preset);
  KL_CHECK(check_external(given));
  return given;
}

Result<std::string> preset_for(const Context& context, const Target& target, const std::string& flag,
                               const std::string& workspace_preset) {
  if (target.seam.empty() && flag.empty()) return workspace_preset;
  return choose_filing_preset(context, flag, workspace_preset);
}

Result<Identity> identity_of_preset(const Context& context, const Catalogue& catalogue, const std::string& preset) {
  Identity now;
  now.fingerprint_class = fingerprint_class(*context.engine).hash();
  if (is_external(preset)) return now;
  KL_TRY(const TrainerPreset described, builtin_trainer().preset(preset));
  KL_TRY(now.trainer, builtin_trainer().identity(described));
  KL_TRY(const SeamLibraries libraries, preset_libraries(context, catalogue, preset));
  now.seams = seams_hash(libraries, "");
  return now;
}

Result<std::vector<SeamShape>> seam_shapes(const Target& target, const std::string& preset) {
  std::vector<SeamShape> shapes;
  if (target.seam.empty() || is_external(preset)) return shapes;
  KL_TRY(const auto seams, builtin_trainer().seams(preset));
  if (const TrainerSeam* seam = seam_of(seams, target)) shapes = seam->shapes;
  return shapes;
}

const TrainerSeam* seam_of(const std::vector<TrainerSeam>& seams, const Target& target) {
  if (target.seam.empty()) return nullptr;
  for (const auto& seam : seams)
    if (seam.seam == target.seam && seam.target == target.key) return &seam;
  return nullptr;
}

Result<Session> open_session(Context& context, const std::string& workspace, const std::string& preset) {
  if (workspace.empty())
    return make_error(Status::usage, "no workspace given",
                      "--workspace DIR; `kernel-lab init --target KEY --workspace DIR` makes one");
  Session session;
  session.catalogue = Catalogue::search(context.target_path);
  KL_TRY(session.workspace, open_workspace(workspace, session.catalogue));
  KL_TRY(session.target, session.catalogue.find(session.workspace.record.target));
  const std::string& engine = session.workspace.record.engine;
  if (engine != context.engine->name()) {
    if (context.engine_chosen)
      return make_error(Status::usage, fmt::format("{} is a workspace of engine {}, not {}", workspace, engine, context.engine->name()),
                        fmt::format("leave --engine out, or init a workspace with --engine {}", context.engine->name()));
    KL_TRY(context.engine, find_engine(engine));
  }
  KL_CHECK(require_usable(context));
  KL_TRY(session.preset,
         preset_for(context, session.target, preset, session.workspace.record.context.preset));
  KL_TRY(session.shapes, seam_shapes(session.target, session.preset));
  KL_TRY(session.calibration,
         calibration_on_file(context, session.catalogue,
                             session.target.seam.empty() || is_external(session.preset) ? "" : session.preset));
  return session;
}

LedgerEvent event_of(const Context& context, std::string_view event_type, const RecordHeader& header,
                     const std::string& metric_name, std::optional<double> metric, Json details) {
  LedgerEvent event;
  event.created_at = header.created_at;
  event.engine = header.engine.empty() ? std::string(context.engine->name()) : header.engine;
  event.backend_family = context.engine->backend_family();
  event.target = header.target;
  event.workspace = header.workspace;
  event.event_type = event_type;
  event.status = to_string(header.status);
  if (metric) event.metric_name = metric_name;
  event.metric_value = metric;
  event.preset = header.preset;
  event.identity = header.identity;
  event.details = std::move(details);
  const GitState git = git_state(fs::current_path());
  event.git_commit = git.commit;
  event.git_dirty = git.dirty;
  return event;
}

Result<LedgerEvent> record_event(const Context& context, std::string_view event_type, const RecordHeader& header,
                                 const std::string& metric_name, std::optional<double> metric, Json details) {
  return Ledger(context.ledger).append(event_of(context, event_type, header, metric_name, metric, std::move(details)));
}

std::string command_line(const Context& context, const std::string& verb_and_flags) {
  return fmt::format("kernel-lab{} {}", context.global_flags, verb_and_flags);
}

Result<Identity> identity_now(const Context& context, const Catalogue& catalogue, const Target& target,
                              const std::string& preset) {
  Identity now;
  now.fingerprint_class = fingerprint_class(*context.engine).hash();
  now.harness = harness_identity(target);
  if (const auto champion = target.champion(*context.engine)) {
    KL_TRY(const BuiltLibrary built, Builder(*context.engine).build({.source = *champion}));
    now.flags = built.flags_hash;
  }
  if (!target.seam.empty() && !is_external(preset)) {
    KL_TRY(const SeamLibraries libraries, preset_libraries(context, catalogue, preset, target.seam));
    now.seams = seams_hash(libraries, target.seam);
    KL_TRY(const TrainerPreset described, builtin_trainer().preset(preset));
    KL_TRY(now.trainer, builtin_trainer().identity(described));
  }
  return now;
}

Result<bool> is_verified(const Context& context, const Session& session) {
  KL_TRY(const Assessment now, assess_now(context, session.catalogue, session.target, session.preset,
                                          session.kernel(), session.workspace.folder.string()));
  bool verified = false;
  for (const auto& line : now.heuristic)
    if (line.event_type == "verify" && line.counts) verified = line.status == "ok";
  return verified;
}

Result<Assessment> assess_now(const Context& context, const Catalogue& catalogue, const Target& target,
                              const std::string& preset, const fs::path& kernel, const std::string& workspace,
                              const LedgerEvent* pending, const RepeatedFlags& repeated) {
  AssessRequest request;
  request.target = target.key;
  request.engine = context.engine->name();
  request.preset = preset;
  request.workspace = workspace;
  request.command_prefix = "kernel-lab" + context.global_flags;
  request.ab_flags = repeated.others;
  request.ab_pairs = repeated.pairs;
  const auto champion = target.champion(*context.engine);
  request.has_starter = champion.has_value();
  request.external = is_external(preset);
  request.can_deep_profile = context.engine->can_deep_profile() && !request.external;
  if (champion) {
    KL_TRY(request.champion_hash, sha256_file(*champion));
  }
  if (!kernel.empty()) {
    KL_TRY(request.candidate_hash, sha256_file(kernel));
  }
  if (context.engine->usable().ok()) {
    KL_TRY(request.now, identity_now(context, catalogue, target, preset));
    if (request.external) {
      if (!target.seam.empty()) {
        KL_TRY(request.stand_in_preset, calibrated_default(context));
        if (request.stand_in_preset.empty()) request.stand_in_preset = kSmallestPreset;
      }
    } else if (!target.seam.empty()) {
      KL_TRY(const auto seams, builtin_trainer().seams(preset));
      const TrainerSeam* seam = seam_of(seams, target);
      if (seam != nullptr && !seam->shapes.empty()) request.seam = target.seam;
      if (seam != nullptr && !seam->on_path()) {
        request.opened_by = *seam->opened_by;
        KL_TRY(request.presets_on_path, presets_on_path(context, target, preset));
      }
      KL_TRY(const SeamLibraries libraries, preset_libraries(context, catalogue, preset));
      request.champion_set = seams_hash(libraries, "");
    }
  }
  KL_TRY(LedgerReading reading, Ledger(context.ledger).query({.engine = request.engine,
                                                                    .event_types = assessed_event_types()}));
  if (!reading.health.clean())
    context.note(fmt::format("{} has lines that were set aside: kernel-lab ledger check", context.ledger.string()));
  if (pending != nullptr) reading.events.push_back(*pending);
  return assess(reading.events, request);
}

Result<Assessment> assess_target(const Context& context, const std::string& key, const std::string& preset,
                                 const std::string& workspace) {
  if (key.empty() && workspace.empty())
    return make_error(Status::usage, "no target given", "--target KEY, or --workspace DIR of a candidate; `kernel-lab list-targets` lists the keys");
  const Catalogue catalogue = Catalogue::search(context.target_path);
  Target target;
  if (!key.empty()) {
    KL_TRY(target, catalogue.find(key));
  }
  fs::path kernel;
  std::string folder, workspace_preset;
  if (!workspace.empty()) {
    KL_TRY(const Workspace opened, open_workspace(workspace, catalogue));
    if (key.empty()) {
      KL_TRY(target, catalogue.find(opened.record.target));
    }
    if (opened.record.target != target.key)
      return make_error(Status::usage, fmt::format("{} is a workspace of {}, not of {}", workspace, opened.record.target, target.key),
                        fmt::format("--target {}", opened.record.target));
    kernel = opened.kernel();
    folder = opened.folder.string();
    workspace_preset = opened.record.context.preset;
  }
  KL_TRY(const std::string chosen, preset_for(context, target, preset, workspace_preset));
  return assess_now(context, catalogue, target, chosen, kernel, folder);
}

}  // namespace kl::app
