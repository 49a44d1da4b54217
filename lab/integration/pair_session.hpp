// Pairs of legs inside one session of one machine, in the order ABBA, BAAB. The first run of the
// session and of each arm is discarded; legs of another machine or boot are never mixed in.
#pragma once

#include <lab/core/fingerprint.hpp>
#include <lab/core/progress.hpp>
#include <lab/integration/leg.hpp>
#include <lab/integration/trainer_client.hpp>

#include <functional>
#include <optional>
#include <variant>
#include <vector>

namespace kl {

struct Pair {
  int64_t index = 0;
  std::string order;        // "AB" or "BA"; A is the baseline
  Leg baseline;
  Leg candidate;
  double log_ratio = 0;     // log(candidate / baseline) of step time: negative is faster
  double log_total = 0;     // the same of time per token over all timed steps: the guard

  template <class Self, class V>
  static void describe(Self& self, V& v) {
    v("index", self.index, "0 is the first pair that counts");
    v("order", self.order, "AB or BA; A is the baseline");
    v("baseline", self.baseline, "leg of the baseline");
    v("candidate", self.candidate, "leg of the candidate");
    v("log_ratio", self.log_ratio, "log(candidate / baseline) of step time: negative is faster");
    v("log_total", self.log_total, "the same over all timed steps, stalls included");
  }
};

// Why a leg gave no number: `aborted` or `fingerprint-mismatch`.
struct LegFailure {
  Arm arm = Arm::baseline;
  std::string reason;
  std::string text;
  std::string remedy;
  TrainerRun run;
};
template <class T>
using OrLegFailure = std::variant<T, LegFailure>;

struct CompletedLeg {
  Leg leg;
  TrainerRun run;
};

// Loss and gradient norm of every step of a run, warm-up included; what the gates look at.
struct LossCurve {
  std::vector<double> loss;
  std::vector<double> grad_norm;
};
LossCurve loss_curve(const TrainerRun& run);

class PairSession {
 public:
  // `plan` holds preset, seed, warm-up and evaluation; its libraries and steps are set here.
  PairSession(const TrainerClient& trainer, TrainerPlan plan, SeamLibraries baseline,
              SeamLibraries candidate);
  std::function<FingerprintSession()> machine = current_session;  // replaced in tests
  double leg_timeout_seconds = 0;                                 // 0: from the first leg's time
  std::optional<Json> candidate_overrides;                        // absent: the plan's, as the baseline's

  // Runs one leg. `adjust` may add snapshots or a perturbation to the plan.
  OrLegFailure<CompletedLeg> run_leg(Arm arm, const std::function<void(TrainerPlan&)>& adjust = {});
  // The next pair of the order.
  OrLegFailure<Pair> next_pair();

  // Timed steps of a leg; whole turns of them after cut_into_turns.
  void set_steps(int64_t steps) { plan_.steps = plan_.turns ? whole_turns(steps, *plan_.turns) : steps; }
  int64_t steps() const { return plan_.steps; }
  // From here on the two legs of a pair run at once and take turns.
  void cut_into_turns(const TurnPlan& turns);
  const TrainerPlan& plan() const { return plan_; }
  const SeamLibraries& libraries(Arm arm) const;
  const TrainerClient& trainer() const { return trainer_; }
  // Seconds after which a run of `steps` steps is stopped.
  double timeout_for(int64_t steps) const;
  // Curves of every leg run so far, by arm.
  const std::vector<LossCurve>& curves(Arm arm) const;
  const std::vector<TrainerRun>& runs(Arm arm) const;

 private:
  TrainerPlan plan_of(Arm arm) const;
  Result<TrainerRun> launch(const TrainerPlan& plan) const;
  OrLegFailure<CompletedLeg> complete(Arm arm, const TrainerPlan& plan, Result<TrainerRun> result);
  OrLegFailure<std::monostate> one_after_the_other(Arm first, Pair& pair);
  OrLegFailure<std::monostate> in_turns(Arm first, Pair& pair);
  std::optional<LegFailure> foreign_leg(Arm arm, const TrainerRun& run);

  const TrainerClient& trainer_;
  TrainerPlan plan_;
  SeamLibraries libraries_[2];
  std::vector<TrainerRun> runs_[2];
  std::vector<LossCurve> curves_[2];
  int64_t pairs_ = 0;
  std::optional<FingerprintSession> session_;
  std::optional<Json> trainer_fingerprint_;
  double first_wall_seconds_ = 0;
  int64_t first_steps_ = 0;
};

}  // namespace kl
