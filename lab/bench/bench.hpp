// bench: is the kernel faster? One request, one record; no printing, no ledger.
//
// The number that decides is seam seconds per training step with cold caches: at every shape the
// preset's trainer calls, forward and backward chained, times the calls of one step. The unit of
// replication is a fresh worker process that holds both arms (lab/bench/session.hpp); the decision
// rule is STATISTICS rule 1 (lab/bench/verdict.hpp). A few of the spec's listed cases are timed
// beside it, in the same letters; no shape may regress.
#pragma once

#include <lab/bench/calibration.hpp>
#include <lab/bench/clock_readings.hpp>
#include <lab/bench/steadiness.hpp>
#include <lab/bench/verdict.hpp>
#include <lab/core/files.hpp>
#include <lab/core/progress.hpp>
#include <lab/core/record.hpp>
#include <lab/engine/engine.hpp>
#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>
#include <lab/verify/verify.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kl {

enum class BenchMode : uint8_t { quick, normal, full };

struct BenchRequest {
  const Engine* engine = nullptr;
  const Target* target = nullptr;
  std::filesystem::path candidate;         // the candidate's source
  std::filesystem::path baseline;          // the baseline's source
  std::string baseline_name = "champion";  // champion, reference
  std::vector<SeamShape> shapes;           // of the preset; at least one
  std::string preset;
  std::string workspace;
  BenchMode mode = BenchMode::normal;
  std::optional<uint64_t> seed;   // drawn from the operating system when absent
  std::filesystem::path samples;  // content-addressed raw samples; empty: none are kept
  std::vector<Ceiling> ceilings;  // from calibration; may be empty
  std::optional<double> theoretical_peak_gb_per_s;  // of the memory; absent: unknown
  std::optional<stats::BenchRule> rule;  // other limits than the mode's; recorded in details
  ClockSampler clocks;  // read around every block; empty: what the engine's device and the host show
  Progress progress;
};

stats::BenchRule bench_rule(BenchMode mode);
std::string_view to_string(BenchMode mode);

// Seam time of one training step of one arm: geometric mean over processes of each process's median.
struct SeamTime {
  double cold_ns_per_step = 0;
  double warm_ns_per_step = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("cold_ns_per_step", self.cold_ns_per_step, "caches flushed before every call; decides");
    v("warm_ns_per_step", self.warm_ns_per_step, "inputs written just before the call");
  }
};

// One operation at one shape.
struct BenchCase {
  std::string operation;
  std::map<std::string, int64_t> axes;
  int64_t calls_per_step = 0;  // 0: a listed case beside the step
  double candidate_cold_ns = 0, candidate_warm_ns = 0;
  double baseline_cold_ns = 0, baseline_warm_ns = 0;
  double bytes_read = 0, bytes_written = 0, flops = 0;   // of the cost model
  double candidate_gb_per_s = 0, baseline_gb_per_s = 0;  // cold
  std::optional<double> ceiling_gb_per_s;                // cold, same footprint and mix
  std::optional<double> candidate_percent_of_ceiling, baseline_percent_of_ceiling;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("operation", self.operation, "forward or backward");
    v("axes", self.axes, "length of each named axis");
    v("calls_per_step", self.calls_per_step, "calls in one training step; 0: a case beside it");
    v("candidate_cold_ns", self.candidate_cold_ns, "one call, caches flushed");
    v("candidate_warm_ns", self.candidate_warm_ns, "one call, inputs just written");
    v("baseline_cold_ns", self.baseline_cold_ns, "one call, caches flushed");
    v("baseline_warm_ns", self.baseline_warm_ns, "one call, inputs just written");
    v("bytes_read", self.bytes_read, "bytes an ideal kernel reads");
    v("bytes_written", self.bytes_written, "bytes an ideal kernel writes");
    v("flops", self.flops, "operations an ideal kernel does");
    v("candidate_gb_per_s", self.candidate_gb_per_s, "model bytes over cold time");
    v("baseline_gb_per_s", self.baseline_gb_per_s, "model bytes over cold time");
    v("ceiling_gb_per_s", self.ceiling_gb_per_s, "copy bandwidth of the same footprint and mix");
    v("candidate_percent_of_ceiling", self.candidate_percent_of_ceiling, "cold");
    v("baseline_percent_of_ceiling", self.baseline_percent_of_ceiling, "cold");
  }
};

struct BenchRecord : RecordHeader {
  static constexpr std::string_view kSchema = "bench";
  std::string kernel_hash;
  std::string baseline;  // champion, reference
  std::string baseline_hash;
  std::string mode;
  uint64_t seed = 0;
  double delta = 0;
  double ratio = 0;                   // candidate / baseline seam seconds per step, cold
  stats::Interval t95, walsh95, t90;  // of the log ratio
  double process_sd = 0;              // SD of the processes' log ratios
  int64_t samples_needed = 0;         // processes; 0: decided, or more would not help
  double warm_ratio = 0;
  stats::Interval warm_t95;
  SeamTime candidate, baseline_time;
  std::vector<BenchCase> cases;
  std::vector<ShapeReading> shapes;
  ClockAgreement clock_agreement;
  int processes = 0;
  int control_processes = 0;  // with the baseline in both places
  int64_t blocks = 0;         // ABBA blocks over all processes, cold
  int64_t blocks_set_aside = 0;  // measured while the machine was disturbed, and repeated
  int64_t timed_calls = 0;
  int64_t calls_checked = 0;  // timed calls whose results were compared with the oracle
  int64_t elements_checked = 0;
  ControlResult controls;
  ClockReadings clocks;
  std::string peak_check;  // within, beyond, unknown
  std::string peak_source;  // what it was held against: theoretical, measured, or nothing
  std::string rule;        // of a rejection or failure
  std::string proof;
  std::optional<FailingElement> failing;  // of a timed call that was wrong
  std::string samples_file;               // SHA-256 of the raw samples
  CompileReport compile, baseline_compile;
  Json confinement = Json::object();

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("kernel_hash", self.kernel_hash, "SHA-256 of the candidate's source");
    v("baseline", self.baseline, "what the candidate was compared with");
    v("baseline_hash", self.baseline_hash, "SHA-256 of the baseline's source");
    v("mode", self.mode, "quick, normal or full");
    v("seed", self.seed, "replays this run's inputs with --seed");
    v("delta", self.delta, "smallest effect that counts, in log time");
    v("ratio", self.ratio, "candidate over baseline seam seconds per step, cold");
    v("t95", self.t95, "paired t interval over processes");
    v("walsh95", self.walsh95, "exact signed-rank interval over processes");
    v("t90", self.t90, "paired t interval that decides equivalence");
    v("process_sd", self.process_sd, "standard deviation of the processes' log ratios");
    v("samples_needed", self.samples_needed,
      "processes that would decide; 0: decided, or more would not help");
    v("warm_ratio", self.warm_ratio, "candidate over baseline seam seconds per step, warm");
    v("warm_t95", self.warm_t95, "paired t interval over processes, warm");
    v("candidate", self.candidate, "the candidate's seam time of one training step");
    v("baseline_time", self.baseline_time, "the baseline's seam time of one training step");
    v("cases", self.cases, "each operation at each shape");
    v("shapes", self.shapes, "each shape by itself: none may regress");
    v("clock_agreement", self.clock_agreement, "the worker's clock against the parent's");
    v("processes", self.processes, "fresh processes with both arms");
    v("control_processes", self.control_processes,
      "fresh processes with the baseline in both places");
    v("blocks", self.blocks, "cold ABBA blocks over all processes");
    v("blocks_set_aside", self.blocks_set_aside,
      "blocks measured while the machine was disturbed, and repeated");
    v("timed_calls", self.timed_calls, "calls that were timed");
    v("calls_checked", self.calls_checked, "timed calls compared with the oracle");
    v("elements_checked", self.elements_checked, "elements compared with the oracle");
    v("controls", self.controls, "the baseline beside the candidate against the baseline alone");
    v("clocks", self.clocks, "clock and load readings");
    v("peak_check", self.peak_check, "within, beyond or unknown");
    v("peak_source", self.peak_source,
      "theoretical peak, or 1.5 times the best rate measured here for that footprint and mix");
    v("rule", self.rule, "rule that was broken, when rejected or failed");
    v("proof", self.proof, "what was seen");
    v("failing", self.failing, "the element of a timed call that was wrong");
    v("samples_file", self.samples_file, "SHA-256 of the raw samples; empty when not kept");
    v("compile", self.compile, "the compiler's report on the candidate");
    v("baseline_compile", self.baseline_compile, "the compiler's report on the baseline");
    v("confinement", self.confinement, "limits that could be applied to the worker");
  }
};

// The record's identity holds kernel, flags, harness, case_plan, baseline, fingerprint_class.
BenchRecord bench(const BenchRequest& request);

}  // namespace kl
