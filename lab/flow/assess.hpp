// Where a target stands, and what comes next: one pure, ordered decision table over the ledger.
// evidence, orchestrate, promotion-check
// and promote are printers of it. docs/states.md shows the table.
#pragma once

#include <lab/core/record.hpp>
#include <lab/ledger/event.hpp>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

// In the order in which they are tried: the first that applies.
enum class PromotionState : uint8_t {
  promoted,
  stale,
  integration_validated,
  integration_regressed,
  integration_mixed,
  integration_equivalent,
  integration_tested,
  trace_deprioritized,
  ready_for_integration_test,
  trace_backed,
  verified_only,
  no_evidence,
};

// Answers of promotion-check, in the order in which they are tried.
enum class PromotionAnswer : uint8_t {
  already_champion,
  rejected,
  deprioritized,
  needs_capture,
  needs_trace_profile,
  needs_deep_profile,
  needs_manual_review,
  ready_for_workspace_family,
  ready_for_workspace,
  needs_verify,
  needs_integration_adapter,
  ready_for_integration,
  stabilize_integration,
  needs_confirmation,
  ready_to_promote,
};

std::string_view to_string(PromotionState state);
std::string_view to_string(PromotionAnswer answer);
std::span<const std::string> promotion_state_names();
std::span<const std::string> promotion_answer_names();

struct AssessRequest {
  std::string target;
  std::string engine;
  std::string preset;
  bool external = false;        // the preset is an imported trace's: no seam, no shapes, no run
  std::string stand_in_preset;  // of an external one: the lab's trainer has the seam in this preset; empty: it has not
  std::string seam;            // trainer seam of the target; empty: the trainer has none for it
  std::map<std::string, std::string> opened_by;  // preset fields that put it on the path; empty: it is
  std::vector<std::string> presets_on_path;      // of a shadowed seam: presets that run it as they are
  bool has_starter = true;     // a champion exists for this engine
  std::string champion_hash;   // SHA-256 of the champion's source; empty: none
  std::string champion_set;    // hash of all champions, as `seams` of calibration events
  bool can_deep_profile = false;  // the engine can
  std::string candidate_hash;  // of the given workspace; empty: the last one recorded
  std::string workspace;       // folder; empty: the last one recorded
  // What would be measured now. Its kernel and baseline are set from the hashes above; an empty
  // field is not compared.
  Identity now;
  std::string command_prefix = "kernel-lab";  // with global flags the user gave
  std::string ab_flags;  // of the A/B that the user has just run: repeated in an A/B that comes next
  std::string ab_pairs;  // its number of pairs, likewise, where nothing says how many would decide
};

struct EvidenceLine {
  std::string id;
  std::string created_at;
  std::string event_type;
  std::string status;
  std::string metric_name;
  std::optional<double> metric_value;
  std::string preset;
  std::string workspace;
  std::string kernel;
  std::string against;               // bench and A/B: champion, reference, vendor
  bool counts = false;               // entered the state
  std::vector<std::string> because;  // why it does not

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("id", self.id, "id of the ledger line, or empty");
    v("created_at", self.created_at, "UTC");
    v("event_type", self.event_type, "what was done");
    v("status", self.status, "outcome");
    v("metric_name", self.metric_name, "name of the number");
    v("metric_value", self.metric_value, "the number, or null");
    v("preset", self.preset, "trainer operating point");
    v("workspace", self.workspace, "workspace folder");
    v("kernel", self.kernel, "SHA-256 of the kernel's source");
    v("against", self.against, "what it was compared with, or empty");
    v("counts", self.counts, "entered the state");
    v("because", self.because, "why it does not count");
  }
};

struct NextStep {
  std::string command;
  std::string why;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("command", self.command, "the command that comes next");
    v("why", self.why, "what it will settle");
  }
};

struct Assessment {
  static constexpr std::string_view kSchema = "assessment";
  std::string target, engine, preset;
  std::string stand_in_preset;  // of `external:NAME`: the lab's trainer can run the target in this one
  std::string candidate_hash, champion_hash, workspace;
  std::string state;
  std::string answer;
  std::vector<std::string> blockers;  // everything that stands between here and promotion
  NextStep next;
  std::vector<std::string> notes;
  std::vector<std::string> moves;    // what demoted the target or brought it back, a sentence each, oldest first
  std::map<std::string, std::string> opened_by;  // of a shadowed seam
  std::optional<double> seam_share;  // of the step, newest that is current
  std::string share_from;            // event type the share comes from
  std::string relevance;             // none, low, medium, high; empty: nobody judged the newest trace
  std::string relevance_by;          // auto-review or a person
  std::string diagnosis;             // of the newest current deep-profile
  std::optional<double> diagnosis_confidence;
  bool diagnosis_weak = false;       // and no person has judged it since
  std::string capture_file;          // metadata of the newest current capture
  std::string trace_profile_file;    // record of the newest current trace-profile
  std::string deep_profile_file;     // record of the newest current diagnosis
  std::optional<double> time_ratio;  // candidate / champion, newest conclusive bench
  std::optional<double> gain_of_share;  // most of its share that a better kernel can gain, by the newest trace-profile
  std::optional<double> gain_bound;  // of the step time, at most
  std::optional<double> delta_eff;
  double gain_threshold = 0.005;  // max(0.5 %, delta_eff)
  int tries = 0;                  // finished A/Bs of any candidate since the last promotion
  std::vector<EvidenceLine> heuristic, trace, integration;
  std::vector<EvidenceLine> stale;         // another kernel or identity, with the reason
  std::vector<EvidenceLine> other_class;   // another machine class: shown, never mixed
  std::vector<EvidenceLine> unidentified;  // version 1 lines: promote nothing

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("target", self.target, "key of the target");
    v("engine", self.engine, "kernel substrate");
    v("preset", self.preset, "trainer operating point");
    v("stand_in_preset", self.stand_in_preset,
      "of an imported trace: a preset of the lab's trainer that can stand in for the traced program, or empty");
    v("candidate_hash", self.candidate_hash, "SHA-256 of the candidate, or empty");
    v("champion_hash", self.champion_hash, "SHA-256 of the champion, or empty");
    v("workspace", self.workspace, "workspace folder, or empty");
    v("state", self.state, "promotion state");
    v("answer", self.answer, "answer of promotion-check");
    v("blockers", self.blockers, "what stands between here and promotion");
    v("next", self.next, "the next step");
    v("notes", self.notes, "what a reader should know beside it");
    v("moves", self.moves, "what demoted the target or brought it back, oldest first");
    v("opened_by", self.opened_by,
      "preset fields that put a shadowed seam on the path; empty: it is there, or there is none");
    v("seam_share", self.seam_share, "share of the training step, or null");
    v("share_from", self.share_from, "event type the share comes from, or empty");
    v("relevance", self.relevance, "none, low, medium, high; empty: nobody judged the newest trace");
    v("relevance_by", self.relevance_by, "auto-review or a person");
    v("diagnosis", self.diagnosis, "of the newest current deep-profile, or empty");
    v("diagnosis_confidence", self.diagnosis_confidence, "0 to 1, or null");
    v("diagnosis_weak", self.diagnosis_weak, "mixed or below 0.5, and no person has judged it since");
    v("capture_file", self.capture_file, "metadata of the newest current capture, or empty");
    v("trace_profile_file", self.trace_profile_file, "record of the newest current trace-profile, or empty");
    v("deep_profile_file", self.deep_profile_file, "record of the newest current diagnosis, or empty");
    v("time_ratio", self.time_ratio, "candidate over champion seam time, or null");
    v("gain_of_share", self.gain_of_share, "1 - floor / measured by the newest current trace-profile, or null");
    v("gain_bound", self.gain_bound, "most of the step that can be gained, or null");
    v("delta_eff", self.delta_eff, "smallest effect integration-ab can decide here, or null");
    v("gain_threshold", self.gain_threshold, "a bound below this deprioritizes");
    v("tries", self.tries, "finished A/Bs since the last promotion");
    v("heuristic", self.heuristic, "verify and bench of this candidate");
    v("trace", self.trace, "where the seam's share comes from");
    v("integration", self.integration, "A/B runs and promotions of this candidate");
    v("stale", self.stale, "evidence of another kernel or identity, with the reason");
    v("other_class", self.other_class, "evidence of another machine class");
    v("unidentified", self.unidentified, "version 1 evidence");
  }
};

// `events`: of this target and engine, and the engine's calibrations, oldest first; others are
// passed over.
Assessment assess(std::span<const LedgerEvent> events, const AssessRequest& request);

// The event types `assess` reads, for a ledger query.
std::vector<std::string> assessed_event_types();

}  // namespace kl
