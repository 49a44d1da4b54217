// What profile and trace-profile write, and what extract and orchestrate read.
#pragma once

#include <lab/flow/ranking.hpp>
#include <lab/trace/summary.hpp>

#include <filesystem>

namespace kl {

struct ProfileRecord : RecordHeader {
  static constexpr std::string_view kSchema = "profile";
  std::string output_file;
  std::vector<RankedCandidate> candidates;
  std::vector<NotRanked> not_ranked;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("output_file", self.output_file, "where it was written, or empty");
    v("candidates", self.candidates, "targets of the preset, best first");
    v("not_ranked", self.not_ranked, "targets without a place, and why");
  }
};

struct TraceProfileRecord : RecordHeader {
  static constexpr std::string_view kSchema = "trace-profile";
  std::string trace, trace_hash, metadata;
  std::string output_file;
  std::string attributed_by;
  std::map<std::string, double> seam_share;
  std::vector<RankedCandidate> candidates;
  std::vector<NotRanked> not_ranked;
  trace::Summary summary;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("trace", self.trace, "the trace that was read, or empty");
    v("trace_hash", self.trace_hash, "SHA-256 of it");
    v("metadata", self.metadata, "of its capture, or empty");
    v("output_file", self.output_file, "where this record was written");
    v("attributed_by", self.attributed_by, "seams, or families: of kernels, which all targets of a family share");
    v("seam_share", self.seam_share, "of the window, by seam; of an imported trace by target");
    v("candidates", self.candidates, "targets in the trace, best first");
    v("not_ranked", self.not_ranked, "targets without a place, and why");
    v("summary", self.summary, "the trace itself: devices, families, split and bottleneck");
  }
};

// What extract, orchestrate and the reviews need of either record.
struct ReadProfile {
  std::string schema, engine, preset, file;
  std::string trace;  // of a trace-profile: the trace that was read
  Status status = Status::ok;
  std::vector<RankedCandidate> candidates;
};

// Errors (usage) name the file and what is wrong with it: missing, truncated, another record, an
// unknown version.
Result<ReadProfile> read_profile(const std::filesystem::path& file);
// The same, of that schema alone.
Result<ReadProfile> read_profile_of(const std::filesystem::path& file, std::string_view schema);
// The candidate of a rank; out of range: usage, with the range.
Result<RankedCandidate> candidate_of_rank(const ReadProfile& profile, int64_t rank);

}  // namespace kl
