// Promotion: the patch that makes a candidate the champion, and its application with provenance.
#pragma once

#include <lab/core/files.hpp>
#include <lab/core/record.hpp>
#include <lab/flow/source_diff.hpp>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

// Why a champion is what it is.
struct Provenance {
  std::string target;
  std::string engine;
  std::string kernel_hash;
  std::string from_hash;    // the champion it replaced
  std::string promoted_at;  // UTC
  std::string lab_version;
  std::string git_commit;
  std::string preset;
  std::vector<std::string> evidence;    // ids of ledger lines
  std::map<std::string, double> gains;  // by metric: "speedup", "time_ratio" …
  int64_t lines_added = 0;
  int64_t lines_removed = 0;
  bool forced = false;
  std::string why;  // of a forced one

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("target", self.target, "key of the target");
    v("engine", self.engine, "kernel substrate");
    v("kernel_hash", self.kernel_hash, "SHA-256 of the champion's source");
    v("from_hash", self.from_hash, "SHA-256 of the champion it replaced");
    v("promoted_at", self.promoted_at, "UTC");
    v("lab_version", self.lab_version, "version of Kernel Lab");
    v("git_commit", self.git_commit, "commit it was promoted on, or empty");
    v("preset", self.preset, "trainer operating point of the evidence");
    v("evidence", self.evidence, "ids of the ledger lines it rests on");
    v("gains", self.gains, "measured gains by metric");
    v("lines_added", self.lines_added, "lines the new champion has more");
    v("lines_removed", self.lines_removed, "lines of the old champion that are gone");
    v("forced", self.forced, "promoted against the decision table");
    v("why", self.why, "the reason given for that");
  }
};

// provenance.json beside the champions: one entry for each kernel file.
struct ProvenanceFile {
  static constexpr std::string_view kSchema = "provenance";
  std::string schema = "provenance";
  int schema_version = 1;
  std::map<std::string, Provenance> champions;  // by file name

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("schema", self.schema, "provenance");
    v("schema_version", self.schema_version, "version of this record");
    v("champions", self.champions, "by kernel file");
  }
};

struct PromotionPatch {
  SourceDiff diff;
  std::string from_hash;  // the champion as it is now
  std::string to_hash;    // the candidate
};
// `source`: of a workspace's kernel, or of a stored object.
Result<PromotionPatch> promotion_patch(const std::filesystem::path& champion,
                                       std::string_view source);

struct PromotionRequest {
  std::filesystem::path champion;  // the file to replace
  std::string source;              // of the candidate
  std::string verified_hash;       // SHA-256 of what was verified; empty: not compared
  std::string made_from;           // champion hash of the workspace, or baseline of the evidence
  bool forced = false;             // allow a champion that is not `made_from`
  Provenance provenance;           // hashes, date, version, lines and `forced` are filled in
  const ObjectStore* objects = nullptr;  // keeps old and new source; may be null
};

// Replaces exactly the champion file and writes provenance.json beside it. `refused` when the
// champion is not `made_from` (unless forced), or the source is not the one that was verified. If
// the provenance cannot be written the champion is put back.
Result<Provenance> apply_promotion(const PromotionRequest& request);

// Empty when no champion of this folder was ever promoted.
Result<std::optional<Provenance>> read_provenance(const std::filesystem::path& champion);

}  // namespace kl
