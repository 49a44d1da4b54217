#include <lab/integration/pair_session.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kl {
namespace {

// The first run may build the trainer's vocabulary and shards.
constexpr double kFirstRunSeconds = 1800;
constexpr double kLeastTimeoutSeconds = 60;
constexpr double kTimeoutFactor = 10;

size_t index_of(Arm arm) { return arm == Arm::baseline ? 0 : 1; }

}  // namespace

LossCurve loss_curve(const TrainerRun& run) {
  LossCurve curve;
  for (const auto& step : run.steps) {
    curve.loss.push_back(step.loss);
    curve.grad_norm.push_back(step.grad_norm);
  }
  return curve;
}

PairSession::PairSession(const TrainerClient& trainer, TrainerPlan plan, SeamLibraries baseline,
                         SeamLibraries candidate)
    : trainer_(trainer),
      plan_(std::move(plan)),
      libraries_{std::move(baseline), std::move(candidate)} {}

const SeamLibraries& PairSession::libraries(Arm arm) const { return libraries_[index_of(arm)]; }
const std::vector<LossCurve>& PairSession::curves(Arm arm) const { return curves_[index_of(arm)]; }
const std::vector<TrainerRun>& PairSession::runs(Arm arm) const { return runs_[index_of(arm)]; }

double PairSession::timeout_for(int64_t steps) const {
  if (leg_timeout_seconds > 0) return leg_timeout_seconds;
  if (first_steps_ == 0) return kFirstRunSeconds;
  const double scale =
      std::max(1.0, static_cast<double>(steps) / static_cast<double>(first_steps_));
  return std::max(kLeastTimeoutSeconds, kTimeoutFactor * scale * first_wall_seconds_);
}

std::optional<LegFailure> PairSession::foreign_leg(Arm arm, const TrainerRun& run) {
  const FingerprintSession now = machine();
  if (!session_) session_ = now;
  if (now.host != session_->host || now.boot_id != session_->boot_id)
    return LegFailure{arm, "fingerprint-mismatch",
                      fmt::format("the first leg ran on {} (boot {}), this one on {} (boot {})",
                                  session_->host, session_->boot_id, now.host, now.boot_id),
                      "start again: pairs of two sessions are never mixed", run};
  const Json seen = run.start ? run.start->fingerprint : Json::object();
  if (!trainer_fingerprint_) trainer_fingerprint_ = seen;
  if (seen != *trainer_fingerprint_)
    return LegFailure{arm, "fingerprint-mismatch",
                      fmt::format("the trainer's fingerprint changed from {} to {}",
                                  dump_line(*trainer_fingerprint_), dump_line(seen)),
                      "start again: pairs of two configurations are never mixed", run};
  return std::nullopt;
}

OrLegFailure<CompletedLeg> PairSession::run_leg(Arm arm,
                                                const std::function<void(TrainerPlan&)>& adjust) {
  TrainerPlan plan = plan_;
  plan.libraries = libraries(arm);
  if (adjust) adjust(plan);
  const int64_t all_steps = plan.warmup_steps + plan.steps;
  auto result = trainer_.run(plan, timeout_for(all_steps));
  if (!result)
    return LegFailure{arm, "aborted", result.error().what, result.error().remedy, TrainerRun{}};
  TrainerRun run = std::move(*result);
  if (!run.complete()) {
    const std::string remedy = run.error && !run.error->remedy.empty()
                                   ? run.error->remedy
                                   : "run the trainer by hand with the same libraries";
    return LegFailure{arm, "aborted",
                      fmt::format("a {} leg {}", to_string(arm), run.why_incomplete()), remedy, run};
  }
  if (auto foreign = foreign_leg(arm, run)) return *foreign;
  auto leg = measure_leg(run, arm, plan.steps);
  if (!leg) return LegFailure{arm, "aborted", leg.error().what, leg.error().remedy, run};
  if (first_steps_ == 0) {
    first_steps_ = all_steps;
    first_wall_seconds_ = run.wall_seconds;
  }
  // Evidence of the plain configuration only: a perturbed leg is not this arm.
  if (!plan.perturb) {
    curves_[index_of(arm)].push_back(loss_curve(run));
    runs_[index_of(arm)].push_back(run);
  }
  return CompletedLeg{std::move(*leg), std::move(run)};
}

OrLegFailure<Pair> PairSession::next_pair() {
  const Arm first = stats::first_of_pair(static_cast<int>(pairs_));
  Pair pair;
  pair.index = pairs_;
  pair.order.assign(first == Arm::baseline ? "AB" : "BA", 2);
  for (const Arm arm : {first, stats::other(first)}) {
    auto outcome = run_leg(arm);
    if (auto* failure = std::get_if<LegFailure>(&outcome)) return std::move(*failure);
    (arm == Arm::baseline ? pair.baseline : pair.candidate) =
        std::get<CompletedLeg>(std::move(outcome)).leg;
  }
  pair.log_ratio = pair.candidate.log_ns - pair.baseline.log_ns;
  pair.log_total = std::log(pair.baseline.tokens_per_s / pair.candidate.tokens_per_s);
  ++pairs_;
  return pair;
}

}  // namespace kl
