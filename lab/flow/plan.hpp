// The command sequence for a ranked target, given the evidence: orchestrate's answer. A printer of
// the assessment: the level follows from its state, the next step from its answer.
#pragma once

#include <lab/flow/assess.hpp>
#include <lab/flow/ranking.hpp>

#include <string>
#include <vector>

namespace kl {

struct PlanStep {
  std::string command;
  std::string why;
  std::string state;  // done, next, later

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("command", self.command, "command line");
    v("why", self.why, "what it settles");
    v("state", self.state, "done, next or later");
  }
};

struct PlanRequest {
  RankedCandidate candidate;
  std::string preset;
  std::string profile_file;    // the ranking it comes from
  bool profile_is_trace = false;
  std::string imported_trace;  // file of a preset `external:NAME`; empty: the preset is the lab's trainer's
  std::string workspace;       // of the last candidate, else where one would be made
  bool workspace_exists = false;
  std::string trace_metadata;  // given by the user, or empty
  bool trace_metadata_ok = false;
  bool can_deep_profile = false;
  std::string command_prefix = "kernel-lab";
};

struct PlanRecord : RecordHeader {
  static constexpr std::string_view kSchema = "plan";
  std::string level;
  RankedCandidate candidate;
  std::string state, answer;
  std::vector<PlanStep> steps;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("level", self.level, "candidate, verified-only, trace-backed, promotion-ready, needs-integration-adapter, deprioritized, integration-validated");
    v("candidate", self.candidate, "the ranked target");
    v("state", self.state, "promotion state");
    v("answer", self.answer, "answer of promotion-check");
    v("steps", self.steps, "in order; the first that is not done is next");
  }
};

std::string plan_level(const Assessment& now, const PlanRequest& request);
PlanRecord make_plan(const Assessment& now, const PlanRequest& request);

}  // namespace kl
