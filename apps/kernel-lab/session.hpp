// What most verbs start from, resolved once: engine, target, workspace, preset, seam shapes, this
// machine's calibration, and the ledger.
#pragma once

#include "command.hpp"

#include <lab/bench/calibration.hpp>
#include <lab/flow/assess.hpp>
#include <lab/flow/workspace.hpp>
#include <lab/integration/trainer_client.hpp>
#include <lab/ledger/ledger.hpp>
#include <lab/target/target.hpp>

#include <optional>

namespace kl::app {

// The engine can run here; otherwise its structured answer (exit code 5).
Outcome require_usable(const Context& context);

// --device names this engine's device, or nothing in particular.
Outcome require_device(const Context& context, const std::string& device);

// The champion's source on this engine; starter_unavailable when there is none.
Result<fs::path> champion_source(const Context& context, const Target& target);

// What calibrations of this engine and machine class say together: newest ceilings and default
// preset, and the noise and shares of `preset` that still hold; those of an `unstable` one never do.
// Empty when nothing is on file.
Result<std::optional<Calibration>> calibration_on_file(const Context& context, const Catalogue& catalogue,
                                                       const std::string& preset);

// --preset, else the workspace's, else the calibrated default (chosen by probes, else the preset that was
// calibrated by name), else `smoke` with a warning. An unknown preset is a usage error with near matches.
// `external:NAME`, which no trainer runs, is refused.
Result<std::string> choose_preset(const Context& context, const std::string& flag, const std::string& workspace_preset);

// The same where evidence is only read or filed: `external:NAME` of an imported trace, too.
Result<std::string> choose_filing_preset(const Context& context, const std::string& flag, const std::string& workspace_preset);

// The same for a target: one without a seam asks no trainer, and has the empty preset when none is given.
Result<std::string> preset_for(const Context& context, const Target& target, const std::string& flag,
                               const std::string& workspace_preset);

// Hashes of what would be measured now: harness, flags, other seams, trainer, machine class.
Result<Identity> identity_now(const Context& context, const Catalogue& catalogue, const Target& target,
                              const std::string& preset);

// The same for evidence about a preset as it is, with every champion in its seam.
Result<Identity> identity_of_preset(const Context& context, const Catalogue& catalogue, const std::string& preset);

// What the preset's trainer calls this target's seam with; empty without a seam.
Result<std::vector<SeamShape>> seam_shapes(const Target& target, const std::string& preset);
// The seam of this target among those that a trainer lists; null: not there.
const TrainerSeam* seam_of(const std::vector<TrainerSeam>& seams, const Target& target);

struct Session {
  Catalogue catalogue;
  Target target;
  Workspace workspace;
  std::string preset;
  std::vector<SeamShape> shapes;
  std::optional<Calibration> calibration;

  fs::path kernel() const { return workspace.kernel(); }
};

// Opens the workspace and resolves everything above; the workspace's engine wins over the default,
// and an --engine that differs is a usage error.
Result<Session> open_session(Context& context, const std::string& workspace, const std::string& preset);

// The event of a record, without an id: not on file.
LedgerEvent event_of(const Context& context, std::string_view event_type, const RecordHeader& header,
                     const std::string& metric_name, std::optional<double> metric, Json details);
// Appends an event for a record and returns it as written; `metric` is the number that decides.
Result<LedgerEvent> record_event(const Context& context, std::string_view event_type, const RecordHeader& header,
                                 const std::string& metric_name, std::optional<double> metric, Json details);

// A command line that repeats the global flags the user gave.
std::string command_line(const Context& context, const std::string& verb_and_flags);

// A verify of the workspace's present source is on file, ok, and current.
Result<bool> is_verified(const Context& context, const Session& session);

// The flags of an A/B that the user has just run, for a next command of the same verb.
struct RepeatedFlags {
  std::string pairs;   // " --pairs 8", or empty
  std::string others;  // each with a space before it
};

// Where the target stands, from the ledger. `kernel` empty: the last candidate recorded. `pending`: an event that
// counts as if it were the newest on file.
Result<Assessment> assess_now(const Context& context, const Catalogue& catalogue, const Target& target,
                              const std::string& preset, const fs::path& kernel, const std::string& workspace,
                              const LedgerEvent* pending = nullptr, const RepeatedFlags& repeated = {});
// The same from what a user gives: target key (empty: the workspace's), preset or empty, workspace folder or empty.
Result<Assessment> assess_target(const Context& context, const std::string& key, const std::string& preset,
                                 const std::string& workspace);

}  // namespace kl::app
