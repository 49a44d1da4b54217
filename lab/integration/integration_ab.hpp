// integration-ab: repeated balanced trainer runs, baseline against candidate, and the gates that a
// faster kernel must also pass. One request, one record; no printing, no ledger.
#pragma once

#include <lab/core/progress.hpp>
#include <lab/integration/aa.hpp>
#include <lab/integration/divergence_gate.hpp>
#include <lab/integration/gates.hpp>
#include <lab/integration/line_changes.hpp>
#include <lab/integration/replay_gate.hpp>
#include <lab/stats/ab_look.hpp>
#include <lab/stats/amdahl.hpp>

#include <filesystem>
#include <functional>
#include <optional>

namespace kl {

struct IntegrationRequest {
  const Engine* engine = nullptr;
  const Catalogue* catalogue = nullptr;         // champions of the other seams
  const Target* target = nullptr;
  std::filesystem::path candidate;              // source
  std::string against = "champion";             // or "reference"
  std::string workspace;                        // recorded
  std::string preset;
  Json overrides = Json::object();
  std::filesystem::path trainer;                // empty: the builtin trainer
  std::vector<std::string> trainer_arguments;   // before the protocol's own
  double leg_seconds = 0;                       // 0: chosen from the step time
  int64_t steps = 0;                            // 0: from leg_seconds
  int max_pairs = 16;                           // the last look: 4, 8, 12 or 16
  std::optional<double> s_aa;                   // absent: 8 A/A pairs run first
  std::optional<stats::Interval> bench;         // log(candidate / baseline) of seam seconds
  bool skip_eval = false;
  bool no_checkpoint = false;
  uint64_t seed = 1;
  int64_t warmup_steps = kWarmupSteps;
  int tries = 1;                                // comparisons of this candidate so far, this included
  std::filesystem::path samples;                // store of raw samples; empty: none kept
  std::filesystem::path library_cache;          // empty: the builder's own
  std::filesystem::path divergence_cache;       // empty: under the lab's cache folder
  double leg_timeout_seconds = 0;               // 0: from the first leg
  std::function<FingerprintSession()> machine = current_session;
  std::function<std::optional<ProcessorTime>()> processor_time = read_processor_time;
  Progress progress;
};

// Same-seed difference of the loss curves, candidate - baseline, nats per token.
struct LossDifference {
  int64_t steps = 0;        // first steps of a leg that were compared
  double mean = 0;          // over them; a candidate that looks better is a finding too
  double rms = 0;
  double allowed_rms = 0;   // twice that of one unit in the last place

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("steps", self.steps, "first steps of a leg that were compared");
    v("mean", self.mean, "mean of candidate - baseline, nats per token");
    v("rms", self.rms, "root mean square of the differences");
    v("allowed_rms", self.allowed_rms, "bound of the divergence gate");
  }
};

struct IntegrationRecord : RecordHeader {
  static constexpr std::string_view kSchema = "integration-ab";
  std::string explanation;                      // one sentence with the numbers
  std::string against;
  std::string seam;
  std::map<std::string, std::string> opened_by;  // of a shadowed seam: what put it on the path of both arms
  std::vector<double> path_log_ratios;          // its second claim: pairs against the preset's own path
  std::optional<stats::AbLook> path_look;
  std::string kernel_hash;
  stats::AbLook look;                           // speed-up, interval, SD, delta, power, n to decide
  double s_aa = 0;
  std::string s_aa_path;                        // whose A/A pairs: preset, opened (of a shadowed seam)
  bool s_aa_measured_first = false;             // none was on file: A/A pairs ran before
  std::vector<double> aa_log_ratios;            // of those
  int64_t n_needed = 0;                         // pairs in all that would decide; 0: decided
  bool baseline_failed = false;                 // before the candidate ran: the preset does not run here
  std::vector<Pair> pairs;
  std::vector<std::string> orders;              // "AB", "BA", …
  double mean_log_total = 0;
  Gates gates;
  std::vector<ReplayPoint> replays;
  PerturbedDivergence perturbed;
  LossDifference loss;
  double baseline_tokens_per_s = 0;             // medians over the legs, stalls included
  double candidate_tokens_per_s = 0;
  int64_t baseline_peak_bytes = 0;              // medians over the legs
  int64_t candidate_peak_bytes = 0;
  std::map<std::string, double> seam_share;     // of the baseline's steps; empty: measured beside other work
  std::optional<MachineLoad> load;              // while the pairs ran
  SeamCalls calls_expected_per_step, calls_seen_per_step;
  std::optional<stats::AmdahlCheck> amdahl;     // with a bench ratio only
  LineChanges lines;
  int tries = 1;
  int64_t warmup_steps = 0;
  int64_t steps_per_leg = 0;
  int64_t turns = 0;                            // 0: legs in one piece, one after the other
  double leg_seconds = 0;
  uint64_t seed = 0;
  int max_pairs = 0;
  FingerprintSession session;
  CompileReport compile;
  std::string samples_file;
  std::vector<std::string> notices;             // what a reader should know beside the verdict

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    RecordHeader::describe_header(self, v);
    v("explanation", self.explanation, "the verdict in one sentence with its numbers");
    v("against", self.against, "champion or reference");
    v("seam", self.seam, "seam that the candidate filled");
    v("opened_by", self.opened_by, "preset fields that put a shadowed seam on the path of both arms; empty: it was there");
    v("path_log_ratios", self.path_log_ratios, "of a shadowed seam: pairs against the path that the preset runs");
    v("path_look", self.path_look, "the look that decided those; null: the seam is on the path, or was not faster");
    v("kernel_hash", self.kernel_hash, "SHA-256 of the candidate's source");
    v("look", self.look, "the look that decided, or the last one");
    v("s_aa", self.s_aa, "standard deviation of this machine's A/A pairs");
    v("s_aa_path", self.s_aa_path,
      "the path that those ran: the preset's own, or the opened one of a shadowed seam; it sets delta and the noise "
      "stop, the interval comes from the pairs themselves");
    v("s_aa_measured_first", self.s_aa_measured_first, "none was on file: A/A pairs ran before");
    v("aa_log_ratios", self.aa_log_ratios, "those pairs");
    v("n_needed", self.n_needed, "pairs in all that would decide; 0: decided");
    v("baseline_failed", self.baseline_failed, "the baseline did not finish alone: the preset does not run on this machine");
    v("pairs", self.pairs, "the legs of each pair");
    v("orders", self.orders, "order of each pair; A is the baseline");
    v("mean_log_total", self.mean_log_total, "mean log ratio of time per token, stalls included");
    v("gates", self.gates, "correctness gates with their numbers");
    v("replays", self.replays, "losses and gradients from the same weights and batches");
    v("perturbed", self.perturbed, "what one unit in the last place does to the loss curve");
    v("loss", self.loss, "same-seed difference of the loss curves");
    v("baseline_tokens_per_s", self.baseline_tokens_per_s, "median over the legs");
    v("candidate_tokens_per_s", self.candidate_tokens_per_s, "median over the legs");
    v("baseline_peak_bytes", self.baseline_peak_bytes, "median over the legs");
    v("candidate_peak_bytes", self.candidate_peak_bytes, "median over the legs");
    v("seam_share", self.seam_share, "share of the baseline's steps by seam; empty: other work lay over the pairs");
    v("load", self.load, "what other processes did while the pairs ran, or null");
    v("calls_expected_per_step", self.calls_expected_per_step, "by operation, as the trainer says");
    v("calls_seen_per_step", self.calls_seen_per_step, "by operation, in the candidate's first leg");
    v("amdahl", self.amdahl, "does the kernel's gain explain the step's? null without a bench");
    v("lines", self.lines, "the candidate's price in lines");
    v("tries", self.tries, "comparisons of this candidate so far, this one included");
    v("warmup_steps", self.warmup_steps, "steps before the timed ones");
    v("steps_per_leg", self.steps_per_leg, "timed steps of every leg of both arms");
    v("turns", self.turns, "turns of each leg, the two legs of a pair side by side; 0: one leg after the other");
    v("leg_seconds", self.leg_seconds, "steady training in one leg of the baseline");
    v("seed", self.seed, "initial weights and order of tokens, the same in both arms");
    v("max_pairs", self.max_pairs, "the last look that was allowed");
    v("session", self.session, "host and boot of all legs");
    v("compile", self.compile, "the compiler's report on the candidate");
    v("samples_file", self.samples_file, "hash of the raw samples, or empty");
    v("notices", self.notices, "what a reader should know beside the verdict");
  }
};

// Statuses: validated, regressed, mixed, equivalent, inconclusive; needs_integration_adapter for a
// target without a seam in the preset; build_failed; usage; error. `reason` is a short stable name.
IntegrationRecord integration_ab(const IntegrationRequest& request);

}  // namespace kl
