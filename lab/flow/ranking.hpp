// Targets in the order of what work on them can gain: share × (1 − floor / measured), moved by what
// the ledger knows. profile and trace-profile differ only in where their shares come from.
#pragma once

#include <lab/flow/assess.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kl {

// What is known of one target on one preset before any evidence moves it.
struct TargetFacts {
  std::string target;
  std::string seam;
  std::string category;                 // its first family
  std::string starter;                  // starter-ready, trace-ready, no-starter
  std::optional<double> share;          // of the step; empty: it cannot be ranked
  std::string share_from;               // "ranges", "calibration", "cost-model"
  std::optional<double> measured_ns;    // a step, champion
  std::optional<double> floor_ns;       // a step, by the cost model at the preset's shapes
  std::string floor_unknown;            // why it is empty
  std::optional<double> gain_of_share;  // 1 − floor / measured of a trace-profile, where there are no times
  double credited_share = 0;            // of the step: time outside its kernels that it could save
  std::string credited_for;             // why
  std::string not_on_path;              // why the step does not run it; empty: it does
};

struct RankedCandidate {
  int64_t rank = 0;
  std::string target, seam, category, starter;
  double share = 0;
  std::string share_from;
  std::optional<double> measured_ns, floor_ns;
  std::string floor_unknown;
  double credited_share = 0;
  std::string credited_for;
  double gain_bound = 0;
  std::string relevance;
  double score = 0;
  std::vector<std::string> moved_by;
  std::string state, answer;
  std::string rationale;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("rank", self.rank, "1 is first");
    v("target", self.target, "key of the target");
    v("seam", self.seam, "seam of the trainer");
    v("category", self.category, "family of operations");
    v("starter", self.starter, "starter-ready, trace-ready or no-starter");
    v("share", self.share, "of the training step");
    v("share_from", self.share_from, "ranges, calibration or cost-model");
    v("measured_ns", self.measured_ns, "champion's time in a step, or null");
    v("floor_ns", self.floor_ns, "least time in a step by the cost model, or null");
    v("floor_unknown", self.floor_unknown, "why there is no floor, or empty");
    v("credited_share", self.credited_share, "of the step: time outside its kernels that it could save, by the trace's timing");
    v("credited_for", self.credited_for, "what that time is, or empty");
    v("gain_bound", self.gain_bound, "most of the step that can be gained: share x (1 - floor / measured) + credited_share");
    v("relevance", self.relevance, "of that bound: none, low, medium, high");
    v("score", self.score, "the bound, moved by evidence: what the rank follows");
    v("moved_by", self.moved_by, "the evidence that moved it");
    v("state", self.state, "promotion state");
    v("answer", self.answer, "answer of promotion-check");
    v("rationale", self.rationale, "one sentence");
  }
};

struct NotRanked {
  std::string target, why;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("target", self.target, "key of the target");
    v("why", self.why, "why it has no place in the ranking");
  }
};

struct Ranking {
  std::vector<RankedCandidate> candidates;  // best first
  std::vector<NotRanked> not_ranked;
};

// `standing`: by target, where it stands; a target without one is ranked by its bound alone.
Ranking rank_targets(const std::vector<TargetFacts>& facts, const std::map<std::string, Assessment>& standing);

}  // namespace kl
