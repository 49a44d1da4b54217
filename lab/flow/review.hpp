// Judgements of a trace: by rule (auto-review) and by a person (review-trace). The assessment reads
// them from the ledger; a newer trace of the same preset supersedes them.
#pragma once

#include <lab/core/record.hpp>
#include <lab/flow/profile.hpp>

namespace kl {

struct AutoReviewRecord : RecordHeader {
  static constexpr std::string_view kSchema = "auto-review";
  std::string trace_profile;
  double confidence = 0;
  std::string confidence_reason;
  std::map<std::string, std::string> relevance;  // by target
  std::vector<std::string> findings;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("trace_profile", self.trace_profile, "record that was judged");
    v("confidence", self.confidence, "0 to 1: how far the trace can be believed");
    v("confidence_reason", self.confidence_reason, "what limits it");
    v("relevance", self.relevance, "by target: none, low, medium, high");
    v("findings", self.findings, "sentences for a person, the largest first");
  }
};

struct TraceReviewRecord : RecordHeader {
  static constexpr std::string_view kSchema = "trace-review";
  std::string metadata, deep_profile, trace_profile;
  std::string relevance, notes;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("metadata", self.metadata, "capture that was looked at, or empty");
    v("deep_profile", self.deep_profile, "diagnosis that was looked at, or empty");
    v("trace_profile", self.trace_profile, "record of an imported trace that was looked at, or empty");
    v("relevance", self.relevance, "none, low, medium, high");
    v("notes", self.notes, "why");
  }
};

// Relevance of every candidate by its bound, and how far to believe it: the least of the share of
// the window that is attributed, and of 1 unless steps are few; of shares of families also what those can say. insufficient_trace_data when the
// profile has no candidates.
AutoReviewRecord auto_review(const TraceProfileRecord& profile);

}  // namespace kl
