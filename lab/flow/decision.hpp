// The decision table itself: facts in, state and answer out. Rows are tried in order.
#pragma once

#include <lab/flow/assess.hpp>

#include <set>

namespace kl {

// What the ledger says about one candidate, on one preset and machine class. "Current" evidence is
// of this kernel and of everything else that entered it, as it is now.
struct Facts {
  bool has_candidate = false;
  bool has_starter = false;
  bool has_seam = false;
  bool external = false;            // the preset is of an imported trace
  bool is_champion = false;         // the candidate's hash is the champion's
  bool promotion_recorded = false;  // a promotion event names the hash
  bool any_evidence = false;        // verify, bench or A/B of any candidate, this preset and class
  bool current_evidence = false;    // some of it current for this candidate
  bool verified = false;            // newest current verify is ok
  std::string rejection;            // why this kernel is ruled out; empty: it is not
  std::optional<Status> conclusive_ab;  // newest current validated, regressed, mixed or equivalent
  std::optional<Status> latest_ab;      // newest current finished A/B, inconclusive ones too
  bool came_back = false;               // from an A/B that a newer trace's larger share took back
  std::string mixed_because;            // reason of that conclusive A/B where it is mixed
  std::string ab_remedy;                // what the newest finished A/B says to do; empty: nothing
  int64_t ab_pairs_needed = 0;          // pairs in all that would have decided that one; 0: not known
  std::optional<double> seam_share;
  bool captured = false;            // a current capture of this preset is on file
  bool capture_unprofiled = false;  // newer than the newest current trace-profile
  std::set<std::string> other_traces;  // names of imported traces on file, of an imported preset
  bool traced = false;              // a current trace-profile is on file
  bool can_deep_profile = false;    // the engine can
  bool deep_profiled = false;       // a current diagnosis of this target is on file
  bool weak_diagnosis = false;      // and no person has judged it since
  std::optional<double> gain_bound;  // share × (1 − time ratio), else share × (1 − floor / measured), else the share
  double gain_threshold = 0.005;
  int tries = 0;                 // finished A/Bs since the last promotion, any candidate
  int latest_validated_run = 0;  // newest current A/Bs in a row that are validated

  bool can_matter() const { return !gain_bound || *gain_bound >= gain_threshold; }
  bool confirmed() const { return tries <= 1 || latest_validated_run >= 2; }
};

PromotionState state_of(const Facts& facts);
PromotionAnswer answer_of(const Facts& facts, PromotionState state);
// Everything that stands between here and promotion, whatever the answer is.
std::vector<std::string> blockers_of(const Facts& facts);

}  // namespace kl
