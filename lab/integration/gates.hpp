// The correctness gates of a candidate inside a training run. Each is a pure function of what the
// legs reported, and carries the numbers it was decided on.
#pragma once

#include <lab/core/record.hpp>
#include <lab/integration/leg.hpp>
#include <lab/integration/pair_session.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kl {

// `passed` is meaningless unless `ran`.
struct Gate {
  bool ran = false;
  bool passed = false;
  std::string text;       // what was seen, against which bound
  double seen = 0;
  double allowed = 0;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("ran", self.ran, "false: nothing is known");
    v("passed", self.passed, "meaningless unless it ran");
    v("text", self.text, "what was seen, against which bound");
    v("seen", self.seen, "the number that decided");
    v("allowed", self.allowed, "its bound");
  }
};

// Losses and gradient norms are finite, losses at most 100, and no gradient norm lies beyond the
// baseline's fence: max(2 x its largest, exp(median + 8 scaled MAD) of its logs).
Gate finite_and_tame(std::span<const LossCurve> baseline, std::span<const LossCurve> candidate);

struct ReplayPoint {
  int64_t step = 0;         // the weights are those before this step
  int64_t batch = 0;
  double loss_baseline = 0;
  double loss_repeat = 0;   // baseline again: the non-determinism floor
  double loss_candidate = 0;
  double cosine = 0;        // between the gradients of baseline and candidate
  double norm_ratio = 0;    // candidate's gradient norm over baseline's

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("step", self.step, "the weights are the baseline's before this step");
    v("batch", self.batch, "index of the batch");
    v("loss_baseline", self.loss_baseline, "mean nats per token");
    v("loss_repeat", self.loss_repeat, "the baseline again: its non-determinism");
    v("loss_candidate", self.loss_candidate, "mean nats per token");
    v("cosine", self.cosine, "between the baseline's and the candidate's gradients");
    v("norm_ratio", self.norm_ratio, "candidate's gradient norm over the baseline's");
  }
};

// Tolerances of L1 by compute type.
struct ReplayTolerance {
  double loss_nats = 1e-6;
  double cosine_defect = 1e-6;  // cosine >= 1 - this
  double norm_log = 1.5e-3;     // |log norm ratio| at most this: sqrt(2 x cosine defect)
};
ReplayTolerance replay_tolerance(std::string_view dtype);
// L1: paired loss difference within max(3 x floor, tolerance), cosine and norm within theirs.
Gate same_loss_and_gradient(std::span<const ReplayPoint> points, const ReplayTolerance& tolerance);

// Root mean square of the loss differences over the first `steps` steps (or as many as both hold).
double divergence(const LossCurve& a, const LossCurve& b, int64_t steps);
// L2: the candidate's divergence is at most twice the largest of the perturbed baselines', or of the
// plain reference's where that is known, and never judged below 3 x the baseline's own repeat
// divergence or the loss's resolution.
Gate bounded_divergence(double candidate, std::span<const double> perturbed, double repeat,
                        std::optional<double> reference = {});

// The candidate provably ran: its hash is the one loaded, and every step called each operation as
// often as the trainer said it would.
Gate candidate_ran(const TrainerRun& run, std::string_view seam, const SeamLibrary& candidate,
                   const SeamCalls& calls_per_step, int64_t steps);

// Median peak memory of the candidate's legs over the baseline's, at most 1.02.
Gate memory_within(std::span<const int64_t> baseline, std::span<const int64_t> candidate);

struct Gates {
  Gate calls;    // the candidate provably ran
  Gate l0;       // finite, no gradient-norm outlier
  Gate l1;       // replay
  Gate l2;       // divergence
  Gate memory;

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("calls", self.calls, "the candidate provably ran: calls and hash as expected");
    v("l0", self.l0, "finite loss and gradients, no gradient-norm outlier");
    v("l1", self.l1, "same loss and gradients from the same weights and batches");
    v("l2", self.l2, "same-seed divergence like that of one unit in the last place");
    v("memory", self.memory, "peak memory within +2 %");
  }
};

}  // namespace kl
