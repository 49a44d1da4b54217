#include <lab/integration/pair_session.hpp>

#include <lab/core/files.hpp>
#include <lab/integration/turns.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <thread>

namespace kl {
namespace {

// The first run may build the trainer's vocabulary and shards.
constexpr double kFirstRunSeconds = 1800;
constexpr double kLeastTimeoutSeconds = 60;
constexpr double kTimeoutFactor = 10;
constexpr size_t kNobody = 2;

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

TrainerPlan PairSession::plan_of(Arm arm) const {
  TrainerPlan plan = plan_;
  plan.libraries = libraries(arm);
  if (arm == Arm::candidate && candidate_overrides) plan.overrides = *candidate_overrides;
  return plan;
}

Result<TrainerRun> PairSession::launch(const TrainerPlan& plan) const {
  return trainer_.run(plan, timeout_for(plan.all_steps()));
}

OrLegFailure<CompletedLeg> PairSession::run_leg(Arm arm,
                                                const std::function<void(TrainerPlan&)>& adjust) {
  TrainerPlan plan = plan_of(arm);
  if (adjust) adjust(plan);
  return complete(arm, plan, launch(plan));
}

OrLegFailure<CompletedLeg> PairSession::complete(Arm arm, const TrainerPlan& plan,
                                                 Result<TrainerRun> result) {
  if (!result)
    return LegFailure{arm, "aborted", result.error().what, result.error().remedy, TrainerRun{}};
  TrainerRun run = std::move(*result);
  if (!run.complete()) {
    const std::string remedy = run.error && !run.error->remedy.empty()
                                   ? run.error->remedy
                               : run.timed_out
                                   ? "the first leg was far quicker: run again when nothing else runs on this machine, or with fewer --steps"
                                   : "run the trainer by hand with the same libraries";
    return LegFailure{arm, "aborted",
                      fmt::format("a {} leg {}", to_string(arm), run.why_incomplete()), remedy, run};
  }
  if (auto foreign = foreign_leg(arm, run)) return *foreign;
  auto leg = measure_leg(run, arm, plan.steps, plan.turns ? plan.turns->steps : 0);
  if (!leg) return LegFailure{arm, "aborted", leg.error().what, leg.error().remedy, run};
  if (first_steps_ == 0) {
    first_steps_ = plan.all_steps();
    first_wall_seconds_ = run.wall_seconds;
  }
  // Evidence of the plain configuration only: a perturbed leg, or one with another library, is not this arm.
  if (!plan.perturb && plan.libraries == libraries(arm)) {
    curves_[index_of(arm)].push_back(loss_curve(run));
    runs_[index_of(arm)].push_back(run);
  }
  return CompletedLeg{std::move(*leg), std::move(run)};
}

void PairSession::cut_into_turns(const TurnPlan& turns) {
  plan_.turns = turns;
  set_steps(plan_.steps);
}

OrLegFailure<Pair> PairSession::next_pair() {
  const Arm first = stats::first_of_pair(static_cast<int>(pairs_));
  Pair pair;
  pair.index = pairs_;
  pair.order = std::string(first == Arm::baseline ? "AB" : "BA");
  auto outcome = plan_.turns ? in_turns(first, pair) : one_after_the_other(first, pair);
  if (auto* failure = std::get_if<LegFailure>(&outcome)) return std::move(*failure);
  const LegRatio ratio = leg_ratio(pair.baseline, pair.candidate);
  pair.log_ratio = ratio.log_ratio;
  pair.log_total = ratio.log_total;
  ++pairs_;
  return pair;
}

OrLegFailure<std::monostate> PairSession::one_after_the_other(Arm first, Pair& pair) {
  for (const Arm arm : {first, stats::other(first)}) {
    auto outcome = run_leg(arm);
    if (auto* failure = std::get_if<LegFailure>(&outcome)) return std::move(*failure);
    (arm == Arm::baseline ? pair.baseline : pair.candidate) =
        std::get<CompletedLeg>(std::move(outcome)).leg;
  }
  return std::monostate{};
}

OrLegFailure<std::monostate> PairSession::in_turns(Arm first, Pair& pair) {
  const auto failed = [](const Error& error) {
    return LegFailure{Arm::baseline, "aborted", error.what, error.remedy, TrainerRun{}};
  };
  const auto folder = TemporaryFolder::create("kernel-lab-turns");
  if (!folder) return failed(folder.error());
  auto keeper = TurnKeeper::create(folder->path());
  if (!keeper) return failed(keeper.error());

  TrainerPlan plans[2];
  std::optional<Result<TrainerRun>> runs[2];
  std::atomic<bool> ended[2] = {false, false};
  std::atomic<size_t> first_to_end = kNobody;
  std::vector<std::jthread> threads;
  for (const Arm arm : {first, stats::other(first)}) {
    const size_t i = index_of(arm);
    plans[i] = plan_of(arm);
    plans[i].turns->channel = keeper->channel(arm);
    threads.emplace_back([&, i] {
      runs[i].emplace(launch(plans[i]));
      size_t nobody = kNobody;
      first_to_end.compare_exchange_strong(nobody, i);
      ended[i] = true;
    });
  }
  const bool taken = keeper->conduct(plan_.turn_count(), first, ended);
  threads.clear();

  // The one that ended first is the cause; the other was only left alone.
  const Arm cause = first_to_end == index_of(Arm::candidate) ? Arm::candidate : Arm::baseline;
  for (const Arm arm : taken ? std::array{Arm::baseline, Arm::candidate}
                             : std::array{cause, stats::other(cause)}) {
    auto outcome = complete(arm, plans[index_of(arm)], std::move(*runs[index_of(arm)]));
    if (auto* failure = std::get_if<LegFailure>(&outcome)) return std::move(*failure);
    (arm == Arm::baseline ? pair.baseline : pair.candidate) =
        std::get<CompletedLeg>(std::move(outcome)).leg;
  }
  if (!taken)
    return LegFailure{cause, "aborted",
                      fmt::format("a {} leg ended without waiting for its turns", to_string(cause)),
                      "a trainer whose presets say `turns` must take them (docs/trainer-protocol.md)",
                      runs_[index_of(cause)].back()};
  return std::monostate{};
}

}  // namespace kl
