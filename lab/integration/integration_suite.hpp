// integration-suite: the verdicts of the same candidate on several presets, put together.
#pragma once

#include <lab/integration/integration_ab.hpp>

#include <span>

namespace kl {

// One preset of a suite, as its own A/B says it.
struct SuiteRow {
  std::string preset;
  Status status = Status::error;
  std::string reason, explanation, remedy;
  bool counts = true;          // false: the preset does not run here, or lacks the seam
  bool non_inferior = false;   // lower bound of the speed-up above -0.5 %, and every gate that ran passed
  int pairs = 0;
  std::optional<double> speed_up, speed_up_low, speed_up_high;  // null: no pair ran
  std::string event;           // id of its integration-ab event, or empty

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("preset", self.preset, "trainer operating point");
    v("status", self.status, "of the A/B on it");
    v("reason", self.reason, "of that A/B");
    v("explanation", self.explanation, "its verdict in one sentence");
    v("remedy", self.remedy, "what to do about it");
    v("counts", self.counts, "false: the preset does not run here, or lacks the seam");
    v("non_inferior", self.non_inferior, "lower bound of the speed-up above -0.5 %, and every gate passed");
    v("pairs", self.pairs, "pairs of the look that decided");
    v("speed_up", self.speed_up, "null: no pairs ran");
    v("speed_up_low", self.speed_up_low, "lower bound");
    v("speed_up_high", self.speed_up_high, "upper bound");
    v("event", self.event, "id of its integration-ab event in the ledger");
  }
};

struct SuiteRecord : RecordHeader {
  static constexpr std::string_view kSchema = "integration-suite";
  std::string explanation;
  std::string against;
  std::string kernel_hash;
  std::vector<SuiteRow> rows;                // the first is the primary preset
  std::vector<IntegrationRecord> records;    // of each row, in full

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("explanation", self.explanation, "the verdict in one sentence");
    v("against", self.against, "champion or reference");
    v("kernel_hash", self.kernel_hash, "SHA-256 of the candidate's source");
    v("rows", self.rows, "each preset; the first is the primary one");
    v("records", self.records, "the A/B of each, in full; empty in the ledger, which has them as events of their own");
  }
};

struct SuiteVerdict {
  Status status = Status::inconclusive;
  std::string reason, explanation, remedy;
};

inline constexpr double kNonInferior = -0.005;  // speed-up

SuiteRow suite_row(const IntegrationRecord& record);
// STATISTICS rule 3, the first that applies over the rows that count: none → the primary's status; no
// verdict at all (build-failed, error) → that; a gate broken (L0, L1) → regressed; slower here and validated there → mixed; slower → regressed; mixed →
// mixed; primary validated and every preset non-inferior → validated; all equivalent → equivalent; else
// inconclusive.
SuiteVerdict suite_verdict(std::span<const SuiteRow> rows);
// Of A/Bs that have run, the primary preset's first; at least one.
SuiteRecord suite_of(std::vector<IntegrationRecord> records);

}  // namespace kl
