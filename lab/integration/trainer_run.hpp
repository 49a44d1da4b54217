// What a trainer said it did: its event stream, read line by line. A line that cannot be read is
// counted and costs nothing but itself; a stream without `finish` is an aborted run.
#pragma once

#include <lab/core/json.hpp>
#include <lab/core/process.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kl {

struct LoadedLibrary {
  std::string path;
  std::string source_hash;
  std::string library_hash;
};

struct TrainerStart {
  Json config;
  Json fingerprint;
  std::map<std::string, LoadedLibrary> libraries;  // by seam
  int64_t parameters = 0;
  int64_t tokens_per_step = 0;
  int threads = 0;
};

using SeamCalls = std::map<std::string, int64_t>;  // by operation

struct SeamOfStep {
  SeamCalls calls;
  double ns = 0;
};

struct TrainerStep {
  int64_t index = 0;
  bool warmup = false;
  double ns = 0;         // host clock
  double device_ns = 0;
  double tokens = 0;
  double loss = 0;       // mean nats per token; NaN when the trainer sent no number
  double grad_norm = 0;  // NaN likewise
  std::map<std::string, SeamOfStep> seams;
};

// What one step did, range by range.
struct TrainerRange {
  uint32_t name = 0;  // index into the step's names
  int64_t begin_ns = 0, duration_ns = 0;  // begin: monotonic
};
struct TrainerRanges {
  int64_t step = 0;  // index of its step
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<std::string> names;
  std::vector<TrainerRange> ranges;
  int64_t dropped = 0;  // by the trainer, and those that could not be read
};

struct TrainerEval {
  int64_t step = 0;
  double val_bpb = 0;
  double val_loss = 0;
};

struct ReplayedBatch {
  Json weights;  // file or index, as the trainer names it
  int64_t batch = 0;
  double loss = 0;
  double grad_norm = 0;
  std::string gradient;  // file
};

struct TrainerError {
  std::string what;
  std::string remedy;
};

struct TrainerRun {
  std::optional<TrainerStart> start;
  std::vector<TrainerStep> steps;
  std::vector<TrainerRanges> ranges;
  std::vector<std::string> tensor_files;
  std::vector<TrainerEval> evals;
  std::vector<ReplayedBatch> replays;
  std::optional<int64_t> memory_peak_bytes;
  std::map<std::string, SeamCalls> seam_calls;  // of `finish`
  int64_t steps_finished = 0;
  bool finished = false;
  std::optional<TrainerError> error;
  int64_t unreadable_lines = 0;
  std::string first_unreadable;  // why, with the line's number

  int exit_code = 0;  // of the process
  int signal = 0;
  bool timed_out = false;
  double wall_seconds = 0;
  std::string error_output;  // the end of its standard error

  bool complete() const { return finished && !error && exit_code == 0 && signal == 0 && !timed_out; }
  // How it ended, for a person; empty when it is complete.
  std::string why_incomplete() const;
};

TrainerRun read_events(std::string_view stream);
// Adds what the operating system says about the process.
void add_process(TrainerRun& run, const Finished& process);

}  // namespace kl
