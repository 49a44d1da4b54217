// Everything a report about one target says, as plain data: the assessment, and the records and raw
// samples behind it. evidence_page.hpp tells it; nothing is judged again here.
#pragma once

#include <lab/bench/bench.hpp>
#include <lab/bench/calibration.hpp>
#include <lab/bench/series.hpp>
#include <lab/core/files.hpp>
#include <lab/flow/assess.hpp>
#include <lab/flow/history.hpp>
#include <lab/flow/promotion.hpp>
#include <lab/flow/trace_change.hpp>
#include <lab/integration/integration_ab.hpp>
#include <lab/ledger/event.hpp>
#include <lab/verify/verify.hpp>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kl {

// A record of the ledger, and whether it counts now.
template <class Record>
struct Reported {
  EvidenceLine line;
  std::string git_commit;
  bool git_dirty = false;
  Record record;
};

// One finished A/B against the champion, of any candidate.
struct ReportedTry {
  EvidenceLine line;
  int k = 0;        // how many comparisons there had been since the last promotion, this one included
  int pairs = 0;
  double speed_up_low = 0, speed_up_high = 0;
};

struct ReportedLine {
  std::string created_at, event_type, status, git_commit, lab_version, id, samples_file;
  bool git_dirty = false;
  bool samples_kept = false;
};

struct EvidenceReport {
  Assessment assessment;
  std::string written_at;      // UTC
  std::string command_prefix;  // "kernel-lab" with the global flags the user gave
  std::string seam;            // of the target in the trainer; empty: none. Of an imported trace the target's key
  std::optional<Reported<VerifyRecord>> verify;          // newest of the candidate
  std::optional<Reported<BenchRecord>> bench;            // newest with times, else newest
  std::optional<BenchSamples> samples;                   // of that bench
  std::string samples_missing;                           // why there are none
  std::vector<Reported<IntegrationRecord>> comparisons;  // of the candidate, newest first
  std::optional<Reported<Calibration>> calibration;      // newest with ceilings, of the candidate's class
  std::map<std::string, double> shares;                  // of the step, by seam, from what `share_line` names
  EvidenceLine share_line;
  std::vector<std::string> judgements;                   // what people wrote about the current trace
  std::optional<TraceChange> trace_change;               // between the last two traces of the preset
  std::vector<ReportedTry> tries;                        // oldest first
  std::vector<HistoryEntry> sources;                     // every source of this target that was verified
  std::optional<Provenance> promotion;                   // of the candidate, when it became the champion
  std::vector<ReportedLine> lines;                       // what the report draws on, oldest first
  std::vector<std::string> unreadable;                   // records that could not be read, and why
};

struct ReportRequest {
  Assessment assessment;
  std::string seam;
  std::span<const LedgerEvent> events;  // those the assessment was made of
  fs::path objects, samples;            // the stores beside the ledger
  std::string command_prefix = "kernel-lab";
  std::string written_at;
};
EvidenceReport gather_report(const ReportRequest& request);

}  // namespace kl
