// deep-profile: what is a seam's champion bound by? Calls it alone at the preset's shapes, cold, as a
// training step does; counts where the machine lets it, and holds time against the measured ceilings.
#pragma once

#include <lab/bench/calibration.hpp>
#include <lab/bench/diagnosis.hpp>
#include <lab/core/progress.hpp>
#include <lab/target/seam_shape.hpp>
#include <lab/target/target.hpp>

#include <filesystem>

namespace kl {

struct DeepMetric {
  std::string name;
  std::optional<double> value;
  std::string unit;
  std::string state;   // used, substituted, missing
  std::string reason;  // for any but used

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("name", self.name, "what was measured");
    v("value", self.value, "null when missing");
    v("unit", self.unit, "of the value");
    v("state", self.state, "used; substituted: another figure stands in; missing");
    v("reason", self.reason, "why it is substituted or missing, and what would help");
  }
};

struct DeepProfileRecord : RecordHeader {
  static constexpr std::string_view kSchema = "deep-profile";
  std::string output_file;    // absolute
  std::string trace_profile;  // absolute
  std::string kernel_hash;
  std::string method;
  std::vector<DeepMetric> metrics;
  std::string diagnosis;
  double confidence = 0;
  std::string explanation;
  std::map<std::string, double> split;
  int64_t calls = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("output_file", self.output_file, "where this record was written");
    v("trace_profile", self.trace_profile, "record of trace-profile that ranked the target");
    v("kernel_hash", self.kernel_hash, "SHA-256 of the champion's source");
    v("method", self.method, "perf-counters, or roofline: time against measured ceilings alone");
    v("metrics", self.metrics, "each metric used, substituted or missing");
    v("diagnosis", self.diagnosis, "compute-bound, bandwidth-bound, latency-bound, under-occupied, mixed; empty: none");
    v("confidence", self.confidence, "0 to 1; strong from 0.65, weak under 0.5");
    v("explanation", self.explanation, "the diagnosis in one sentence with its numbers");
    v("split", self.split, "share of each resource's peak, 0 to 1; those that are known");
    v("calls", self.calls, "calls that were measured");
  }
};

struct DeepProfileRequest {
  const Engine* engine = nullptr;
  const Target* target = nullptr;
  std::filesystem::path champion;  // source
  std::string preset;
  std::vector<SeamShape> shapes;   // of the preset; at least one
  std::vector<Ceiling> ceilings;   // from calibration; may be empty
  std::optional<double> fp32_tflop_per_s;
  double seconds = 5;
  Progress progress;
};

// Status ok; insufficient_metrics; profile_failed (the champion did not build, load or finish);
// missing_tool for an engine that cannot.
DeepProfileRecord deep_profile(const DeepProfileRequest& request);

}  // namespace kl
