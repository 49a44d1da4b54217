// A trace of the real trainer over a declared window of steady steps: PREFIX.sqlite, and
// PREFIX.metadata.json, which says what was traced, with what, at which cost, and what came of it.
#pragma once

#include <lab/core/fingerprint.hpp>
#include <lab/core/progress.hpp>
#include <lab/engine/engine.hpp>
#include <lab/integration/trainer_client.hpp>
#include <lab/stats/interval.hpp>
#include <lab/target/target.hpp>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kl {

struct CaptureRequest {
  const Engine* engine = nullptr;
  const Catalogue* catalogue = nullptr;
  std::string preset;
  Json overrides = Json::object();               // of preset fields
  std::filesystem::path output;                  // the prefix
  std::string tool = "own";                      // own, nsys
  double window_seconds = 20;                    // of steady steps; `steps` overrides it
  int64_t steps = 0;                             // captured ones
  bool quick = false;
  bool include_eval = false;
  bool tensors = false;                          // also PREFIX.tensors/, of a step behind the window
  uint64_t seed = 1;
  const Target* target = nullptr;                // with a workspace: whose seam runs `candidate`
  std::filesystem::path candidate;
  std::string workspace;
  Json bench = nullptr;                          // the newest bench record of the candidate
  std::filesystem::path trainer;                 // empty: the builtin trainer
  std::vector<std::string> trainer_arguments;
  std::string filed_under;                       // preset of the record; empty: `preset`
  std::filesystem::path library_cache;           // empty: the builder's own
  Progress progress;
};

struct ReportFile {
  std::string path;
  int64_t bytes = 0;
  std::string sha256;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("path", self.path, "file");
    v("bytes", self.bytes, "its size");
    v("sha256", self.sha256, "hash of its content");
  }
};

struct CapturedLibrary {
  std::string path, source_hash, library_hash;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("path", self.path, "library file");
    v("source_hash", self.source_hash, "SHA-256 of its source");
    v("library_hash", self.library_hash, "SHA-256 of the file");
  }
};

struct CaptureRecord : RecordHeader {
  static constexpr std::string_view kSchema = "capture";
  std::string prefix;
  std::string tool, tool_version;
  std::vector<std::string> command;        // the trainer's
  Json plan = Json::object();              // what it was told, without the libraries
  std::string seam;                        // that ran the workspace's kernel, or empty
  std::map<std::string, std::string> opened_by;
  std::map<std::string, CapturedLibrary> libraries;  // by seam
  FingerprintClass device;
  Json trainer_start = Json::object();     // what the trainer says of itself and its machine
  int64_t warmup_steps = 0, steps = 0, first_step = 0, every = 1;
  int64_t window_ns = 0;                   // of the captured steps
  int64_t ranges = 0, dropped = 0;
  double covered_share = 0;
  stats::Interval overhead;                // log(captured step / uncaptured ones)
  std::vector<ReportFile> report_files;
  std::vector<ReportFile> tensor_files;
  std::vector<int> return_codes;
  std::string failure_reason;
  Json evaluation = nullptr;
  Json bench = nullptr;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("prefix", self.prefix, "of the files: PREFIX.sqlite and PREFIX.metadata.json");
    v("tool", self.tool, "own, or nsys");
    v("tool_version", self.tool_version, "its version, or empty");
    v("command", self.command, "the trainer's command line");
    v("plan", self.plan, "what the trainer was told, without its libraries");
    v("seam", self.seam, "seam that ran the workspace's kernel, or empty");
    v("opened_by", self.opened_by, "preset fields set to put that seam on the path");
    v("libraries", self.libraries, "library in every seam");
    v("device", self.device, "fingerprint class");
    v("trainer_start", self.trainer_start, "configuration, fingerprint and threads as the trainer reports them");
    v("warmup_steps", self.warmup_steps, "steps before the timed ones");
    v("steps", self.steps, "captured steps");
    v("first_step", self.first_step, "index of the first captured step, warm-up counted");
    v("every", self.every, "one timed step in so many was captured, the others measure the overhead");
    v("window_ns", self.window_ns, "length of all captured steps together");
    v("ranges", self.ranges, "ranges or device items in the trace");
    v("dropped", self.dropped, "ranges or device items that were lost");
    v("covered_share", self.covered_share, "share of the window inside a range, or on the device");
    v("overhead", self.overhead, "log(captured step / uncaptured ones before and after it), median");
    v("report_files", self.report_files, "what was written");
    v("tensor_files", self.tensor_files, "what the seams were called with in one step, if asked for");
    v("return_codes", self.return_codes, "of the processes that were run; a signal is negative");
    v("failure_reason", self.failure_reason, "why there is no trace, or empty");
    v("evaluation", self.evaluation, "of the trained weights, if asked for");
    v("bench", self.bench, "newest bench record of the workspace's kernel, or null");
  }
};

std::filesystem::path trace_file(const std::filesystem::path& prefix);
std::filesystem::path tensor_folder(const std::filesystem::path& prefix);
std::filesystem::path metadata_file(const std::filesystem::path& prefix);

// Status ok, missing_tool, missing_runtime, capture_unavailable (the trainer writes no ranges), capture_failed,
// needs_integration_adapter, or that of what stopped it before the run. The metadata is written whatever happened,
// and there is a trace exactly when the status is ok. An Error only when PREFIX cannot be written at all.
Result<CaptureRecord> capture(const CaptureRequest& request);

// Median of log(captured step / what the step before it and the one before the next captured one lead to expect).
// `captured`: indices of `step_ns`, one in `every`.
stats::Interval capture_overhead(const std::vector<double>& step_ns, const std::vector<size_t>& captured, int64_t every);

}  // namespace kl
