// One A/B of a workspace in the trainer with its event in the ledger, for integration-ab and integration-suite.
#pragma once

#include "session.hpp"

#include <lab/integration/integration_ab.hpp>

namespace kl::app {

// All of integration-ab's but --preset.
struct IntegrationFlags {
  std::string workspace, trainer = "builtin", against = "champion";
  double time_budget = 0;
  int64_t steps = 0;
  int pairs = 16, repeats = 0;
  bool no_checkpoint = false, skip_eval = false;
  uint64_t seed = 1;
};
void add_integration_flags(CLI::App& app, IntegrationFlags& flags);
// Those that the user gave, without --workspace and --against: the latter changes the question.
RepeatedFlags repeated_flags(const IntegrationFlags& flags);

// The trainer can be started and runs the session's preset on its engine: asked before anything is recorded.
Outcome require_trainer(const Context& context, const Session& session, const IntegrationFlags& flags);

// The workspace's kernel has passed verify as it is now on the session's preset; else `refused`.
Outcome require_verified(const Context& context, const Session& session);

struct RecordedAb {
  IntegrationRecord record;
  std::string event;  // id of its integration-ab event; empty: nothing of the candidate ran, and none is kept
};
Result<RecordedAb> run_and_record_ab(Context& context, const Session& session, const IntegrationFlags& flags);

}  // namespace kl::app
