// A/A pairs: the trainer against itself. Their scatter is this machine's noise, and their legs say
// which share of a step each seam has.
#pragma once

#include <lab/core/machine_load.hpp>
#include <lab/core/progress.hpp>
#include <lab/integration/pair_session.hpp>
#include <lab/integration/seam_libraries.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kl {

inline constexpr int kAaPairs = 8;
inline constexpr int64_t kWarmupSteps = 5;

struct AaRequest {
  const Engine* engine = nullptr;
  const Catalogue* catalogue = nullptr;
  std::string preset;
  Json overrides = Json::object();
  std::filesystem::path trainer;                // empty: the builtin trainer
  std::vector<std::string> trainer_arguments;   // before the protocol's own
  double leg_seconds = 0;                       // 0: chosen from the step time
  int64_t steps = 0;                            // 0: from leg_seconds
  int pairs = kAaPairs;                         // 0: the first run alone, whether it works and its step time
  uint64_t seed = 1;
  int64_t warmup_steps = kWarmupSteps;
  std::filesystem::path samples;                // store of raw samples; empty: none kept
  std::filesystem::path library_cache;          // empty: the builder's own
  double leg_timeout_seconds = 0;               // 0: from the first leg
  std::function<std::optional<ProcessorTime>()> processor_time = read_processor_time;
  Progress progress;
};

// Beyond it an A/B decides not even the effects that relevance calls high.
inline constexpr double kLargestDeltaEff = 0.05;
inline constexpr const char* kQuietMachine = "calibrate again on a quiet machine: kernel-lab calibrate --aa";

// Why such A/A pairs say nothing of the machine; empty: they do.
std::string why_unstable(double s_aa, const std::optional<MachineLoad>& load);

struct AaRecord : RecordHeader {
  static constexpr std::string_view kSchema = "integration-aa";
  double s_aa = 0;                              // SD of the pairs' log ratios, n - 1
  double delta_eff = 0;
  std::vector<double> log_ratios;
  std::vector<Pair> pairs;
  int64_t warmup_steps = 0;
  int64_t steps_per_leg = 0;
  int64_t turns = 0;                            // 0: legs in one piece, one after the other
  double leg_seconds = 0;                       // steady training in one leg
  double step_ns = 0;                           // median of the legs' numbers
  double tokens_per_s = 0;                      // median of the legs
  int64_t peak_bytes = 0;                       // largest of the legs
  std::map<std::string, double> seam_share;     // mean over the legs
  std::optional<MachineLoad> load;              // while the pairs ran
  std::string samples_file;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("s_aa", self.s_aa, "standard deviation of the A/A pairs' log ratios, n - 1 in the variance");
    v("delta_eff", self.delta_eff, "smallest effect integration-ab can decide here, log units");
    v("log_ratios", self.log_ratios, "log(second arm / first arm) of each pair");
    v("pairs", self.pairs, "the legs of each pair");
    v("warmup_steps", self.warmup_steps, "steps before the timed ones");
    v("steps_per_leg", self.steps_per_leg, "timed steps of every leg");
    v("turns", self.turns, "turns of each leg, the two legs of a pair side by side; 0: one leg after the other");
    v("leg_seconds", self.leg_seconds, "steady training in one leg");
    v("step_ns", self.step_ns, "median over the legs of their trimmed mean step");
    v("tokens_per_s", self.tokens_per_s, "median over the legs, stalls included");
    v("peak_bytes", self.peak_bytes, "largest peak memory of a leg");
    v("seam_share", self.seam_share, "share of the timed steps spent in each seam");
    v("load", self.load, "what other processes did while the pairs ran, or null");
    v("samples_file", self.samples_file, "hash of the raw samples, or empty");
  }
};

// status ok; unstable, when other work or too much noise lies over the pairs; or error, execution_failed (aborted, fingerprint-mismatch), usage, build_failed.
AaRecord run_aa(const AaRequest& request);

// Mean over legs of each seam's share.
std::map<std::string, double> mean_seam_share(const std::vector<Leg>& legs);
// Raw step times, losses and gradient norms of every run of a session, stored by content; the hash.
Result<std::string> keep_samples(const PairSession& session, const std::vector<Pair>& pairs,
                                 const std::filesystem::path& store);

}  // namespace kl
