#include <lab/integration/integration_ab.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/near.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <lab/integration/verdict.hpp>
#include <lab/stats/moments.hpp>
#include <lab/stats/quantile.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

constexpr int64_t kProbeSteps = 30;

// One comparison: prepare, warm both arms, replay, pairs, divergence, verdict.
class Comparison {
 public:
  Comparison(const IntegrationRequest& request, IntegrationRecord& record)
      : request_(request),
        record_(record),
        trainer_(request.trainer.empty() ? TrainerClient::builtin() : request.trainer,
                 request.trainer_arguments) {}

  Outcome run() {
    KL_CHECK(prepare());
    if (record_.status == Status::needs_integration_adapter) return {};
    KL_CHECK(measure_noise());
    if (session_) KL_CHECK(measure());
    conclude();
    return {};
  }

 private:
  Outcome prepare() {
    const auto& target = *request_.target;
    if (target.seam.empty()) {
      needs_adapter();
      return {};
    }
    KL_TRY(const auto baseline_source, baseline());
    KL_TRY(const auto preset, trainer_.preset(request_.preset));
    KL_TRY(const TrainerPath path, trainer_.path(request_.preset, request_.overrides, target.seam));
    const TrainerSeam* mine = path.find(target.seam);
    if (mine == nullptr) {
      needs_adapter();
      return {};
    }
    record_.opened_by = path.opened_by;
    for (const auto& [field, value] : path.opened_by) overrides_[field] = value;
    if (shadowed())
      record_.notices.push_back(fmt::format("shadowed: preset {} does not run seam {}; both arms open it ({})",
                                            request_.preset, target.seam, opened_text()));
    seam_ = mine->seam;
    dtype_ = mine->shapes.empty() ? "f32" : mine->shapes.front().dtype;
    calls_per_step_ = mine->calls_per_step();

    const Builder builder = builder_of_libraries();
    KL_TRY(auto libraries, champion_libraries(*request_.engine, builder, *request_.catalogue, path.seams));
    if (shadowed()) {
      KL_TRY(const TrainerPath own, trainer_.path(request_.preset, request_.overrides));
      KL_TRY(path_, champion_libraries(*request_.engine, builder, *request_.catalogue, own.seams));
    }
    KL_TRY(const auto base, builder.build({.source = baseline_source}));
    KL_TRY(const auto candidate, builder.build({.source = request_.candidate}));
    baseline_ = libraries;
    baseline_[seam_] = seam_library(base);
    candidate_ = std::move(libraries);
    candidate_[seam_] = seam_library(candidate);

    KL_TRY(const auto before, read_file(baseline_source));
    KL_TRY(const auto after, read_file(request_.candidate));
    record_.lines = line_changes(before, after);
    record_.seam = seam_;
    record_.kernel_hash = candidate.source_hash;
    record_.compile = candidate.report;
    record_.calls_expected_per_step = calls_per_step_;
    record_.identity.kernel = candidate.source_hash;
    record_.identity.flags = candidate.flags_hash;
    record_.identity.baseline = base.source_hash;
    record_.identity.seams = seams_hash(candidate_, seam_);
    KL_TRY(record_.identity.trainer, trainer_.identity(preset));
    start_session();
    takes_turns_ = preset.turns.value_or(false);
    return {};
  }

  Result<fs::path> baseline() const {
    const auto& target = *request_.target;
    if (request_.against == "reference") return target.reference(*request_.engine);
    const std::vector<std::string> names = {"champion", "reference"};
    if (request_.against != "champion")
      return make_error(Status::usage, fmt::format("no baseline \"{}\"", request_.against),
                        suggestion(request_.against, names));
    if (auto champion = target.champion(*request_.engine)) return std::move(*champion);
    return make_error(Status::starter_unavailable,
                      fmt::format("target {} has no champion for engine {}", target.key,
                                  request_.engine->name()),
                      "compare with --against reference");
  }

  Builder builder_of_libraries() const {
    return request_.library_cache.empty() ? Builder(*request_.engine)
                                          : Builder(*request_.engine, request_.library_cache);
  }

  void needs_adapter() {
    record_.status = Status::needs_integration_adapter;
    record_.reason = "needs-integration-adapter";
    record_.explanation =
        request_.target->seam.empty()
            ? fmt::format("target {} fills no seam of a trainer", request_.target->key)
            : fmt::format("preset {} does not run seam {}", request_.preset, request_.target->seam);
    record_.remedy = "bench and verify it alone, or use a preset or trainer that runs its seam";
  }

  void start_session() {
    TrainerPlan plan;
    plan.preset = request_.preset;
    plan.overrides = overrides_;
    plan.seed = request_.seed;
    plan.warmup_steps = request_.warmup_steps;
    plan.skip_eval = request_.skip_eval;
    plan.no_checkpoint = request_.no_checkpoint;
    session_.emplace(trainer_, plan, baseline_, candidate_);
    session_->machine = request_.machine;
    session_->leg_timeout_seconds = request_.leg_timeout_seconds;
    session_->set_steps(request_.steps);
  }

  // s_AA from the request, or from A/A pairs of the baseline run now.
  Outcome measure_noise() {
    if (request_.s_aa) {
      record_.s_aa = *request_.s_aa;
      record_.s_aa_path = "preset";
      if (shadowed())
        record_.notices.push_back(
            "the A/A noise on file is of the preset's own path: it sets the smallest effect that counts and the noise "
            "stop; the intervals come from these pairs");
      return {};
    }
    record_.s_aa_measured_first = true;
    record_.s_aa_path = shadowed() ? "opened" : "preset";
    record_.notices.push_back(fmt::format(
        "no A/A noise on file for {} here: {} A/A pairs ran first", request_.preset, kAaPairs));
    PairSession aa(trainer_, session_->plan(), baseline_, baseline_);
    aa.machine = request_.machine;
    aa.leg_timeout_seconds = request_.leg_timeout_seconds;
    if (!find_leg_length(aa, {})) return {};
    session_->set_steps(aa.steps());
    if (aa.plan().turns) session_->cut_into_turns(*aa.plan().turns);
    for (int i = 0; i < kAaPairs; ++i) {
      report(request_.progress, {static_cast<double>(i), kAaPairs, "pairs", "A/A pairs: the noise here"});
      auto outcome = aa.next_pair();
      if (auto* failure = std::get_if<LegFailure>(&outcome)) {
        failed(*failure);
        return {};
      }
      record_.aa_log_ratios.push_back(std::get<Pair>(outcome).log_ratio);
    }
    record_.s_aa = stats::standard_deviation(record_.aa_log_ratios);
    // A comparison that could decide nothing would still call everything equivalent.
    if (const std::string why = why_unstable(record_.s_aa, std::nullopt); !why.empty()) {
      input_.failure = "noisy-platform";
      input_.failure_text = why;
      input_.failure_remedy = "leave the machine alone and run again";
    }
    return {};
  }

  Outcome measure() {
    if (input_.failure) return {};
    KL_TRY(const auto rule, stats::ab_rule(record_.s_aa));
    KL_TRY(const auto weights, TemporaryFolder::create("kernel-lab-weights"));
    if (!warm_up(weights.path())) return {};
    KL_CHECK(replay(weights.path()));
    if (input_.failure || (record_.gates.l1.ran && !record_.gates.l1.passed)) return {};
    run_pairs(rule);
    judge_curves();
    if (input_.failure) return {};
    KL_CHECK(judge_divergence());
    if (shadowed() && input_.look.decision == stats::AbDecision::faster) compare_with_path(rule);
    return {};
  }

  bool shadowed() const { return !record_.opened_by.empty(); }
  std::string opened_text() const {
    std::string text;
    for (const auto& [field, value] : record_.opened_by)
      text += (text.empty() ? "" : " ") + field + "=" + value;
    return text;
  }

  // The second claim of a shadowed seam: the opened region with the candidate against the path that the
  // preset runs today, by the same rule.
  void compare_with_path(const stats::AbRule& rule) {
    TrainerPlan plan = session_->plan();
    plan.overrides = request_.overrides;
    PairSession session(trainer_, plan, path_, candidate_);
    session.candidate_overrides = overrides_;
    session.machine = request_.machine;
    session.leg_timeout_seconds = request_.leg_timeout_seconds;
    if (plan.turns) session.cut_into_turns(*plan.turns);
    record_.path_look = pairs_to_a_decision(session, rule, "the path of the preset against the opened one with the candidate",
                                            [&](const Pair& pair) { record_.path_log_ratios.push_back(pair.log_ratio); });
  }

  // A session's first run: discarded; finds the leg's length unless it is given.
  bool find_leg_length(PairSession& session, const std::function<void(TrainerPlan&)>& adjust) {
    const int64_t given = session.steps();
    if (given <= 0) session.set_steps(kProbeSteps);
    report(request_.progress, {0, 0, "", "first run of the baseline, discarded"});
    auto probe = session.run_leg(Arm::baseline, adjust);
    if (auto* failure = std::get_if<LegFailure>(&probe)) {
      record_.baseline_failed = true;
      return failed(*failure);
    }
    const double step_ns = std::get<CompletedLeg>(probe).leg.step_ns;
    if (given <= 0) session.set_steps(steps_per_leg(step_ns, request_.leg_seconds));
    if (takes_turns_ && !session.plan().turns) session.cut_into_turns(turns_for(step_ns));
    return true;
  }

  bool warm_up(const fs::path& weights) {
    const int64_t steps = session_->steps() > 0 ? session_->steps() : kProbeSteps;
    snapshots_ = snapshot_steps(request_.warmup_steps, steps);
    const bool warmed = find_leg_length(*session_, [&](TrainerPlan& plan) {
      plan.snapshots = SnapshotRequest{weights, snapshots_};
      plan.skip_eval = true;
    });
    if (!warmed) return false;
    record_.steps_per_leg = session_->steps();
    record_.turns = session_->plan().turn_count();
    report(request_.progress, {0, 0, "", "first run of the candidate, discarded"});
    auto outcome = session_->run_leg(Arm::candidate);
    if (auto* failure = std::get_if<LegFailure>(&outcome)) return failed(*failure);
    const auto& run = std::get<CompletedLeg>(outcome).run;
    record_.gates.calls = candidate_ran(run, seam_, candidate_.at(seam_), calls_per_step_,
                                        session_->plan().all_steps());
    if (!run.steps.empty() && run.steps.front().seams.contains(seam_))
      record_.calls_seen_per_step = run.steps.front().seams.at(seam_).calls;
    return record_.gates.calls.passed;
  }

  Outcome replay(const fs::path& weights) {
    report(request_.progress, {0, 0, "", "the same weights and batches through both paths"});
    KL_TRY(auto outcome, replay_both(*session_, weights, snapshots_));
    if (!outcome.failure) {
      record_.replays = std::move(outcome.points);
      record_.gates.l1 = same_loss_and_gradient(record_.replays, replay_tolerance(dtype_));
    } else if (outcome.failure->reason == "gates-not-run") {
      record_.gates.l1.text = outcome.failure->text;
    } else {
      failed(*outcome.failure);
    }
    return {};
  }

  // Pairs up to the look that decides, or to the last one allowed, or to a leg that fails.
  stats::AbLook pairs_to_a_decision(PairSession& session, const stats::AbRule& rule, const std::string& what,
                                    const std::function<void(Pair)>& keep) {
    std::vector<double> ratios;
    auto look = stats::decide_pairs(ratios, rule);
    while (look.decision == stats::AbDecision::next_look && look.next_pairs <= request_.max_pairs) {
      while (static_cast<int>(ratios.size()) < look.next_pairs) {
        report(request_.progress,
               {static_cast<double>(ratios.size()), static_cast<double>(look.next_pairs), "pairs", what});
        auto outcome = session.next_pair();
        if (auto* failure = std::get_if<LegFailure>(&outcome)) {
          failed(*failure);
          return look;
        }
        ratios.push_back(std::get<Pair>(outcome).log_ratio);
        keep(std::get<Pair>(std::move(outcome)));
      }
      look = stats::decide_pairs(ratios, rule);
    }
    return look;
  }

  void run_pairs(const stats::AbRule& rule) {
    const auto before = request_.engine->readings() ? std::nullopt : request_.processor_time();
    input_.look = pairs_to_a_decision(*session_, rule, fmt::format("baseline against candidate, at most {} pairs", request_.max_pairs),
                                      [&](Pair pair) { record_.pairs.push_back(std::move(pair)); });
    if (before) record_.load = load_between(before, request_.processor_time());
    if (input_.failure) return;
    for (const auto& run : session_->runs(Arm::candidate)) {
      Gate calls = candidate_ran(run, seam_, candidate_.at(seam_), calls_per_step_,
                                 session_->plan().all_steps());
      if (!calls.passed) record_.gates.calls = std::move(calls);
    }
  }

  void judge_curves() {
    record_.gates.l0 =
        finite_and_tame(session_->curves(Arm::baseline), session_->curves(Arm::candidate));
  }

  Outcome judge_divergence() {
    // The first baseline leg may have another length; pairs all have the same.
    const auto& before = session_->curves(Arm::baseline);
    const auto& after = session_->curves(Arm::candidate);
    if (before.size() < 3 || after.empty()) return {};
    const LossCurve baseline = before.back(), repeat = before[before.size() - 2];
    const LossCurve candidate = after.back();
    const fs::path cache = request_.divergence_cache.empty() ? cache_folder() / "divergence"
                                                             : request_.divergence_cache;
    KL_TRY(record_.perturbed,
           perturbed_divergence(*session_,
                                {seam_, record_.identity.trainer,
                                 record_.identity.fingerprint_class},
                                baseline, cache, request_.progress));
    const int64_t steps = record_.perturbed.steps;
    record_.loss.steps = steps;
    record_.loss.rms = divergence(candidate, baseline, steps);
    record_.gates.l2 = bounded_divergence(record_.loss.rms, record_.perturbed.replicates,
                                          divergence(repeat, baseline, steps));
    if (record_.gates.l2.ran && !record_.gates.l2.passed) {
      KL_TRY(record_.perturbed.reference, reference_divergence(baseline, steps));
      record_.gates.l2 = bounded_divergence(record_.loss.rms, record_.perturbed.replicates,
                                            divergence(repeat, baseline, steps), record_.perturbed.reference);
    }
    record_.loss.allowed_rms = record_.gates.l2.allowed;
    std::vector<double> differences;
    for (size_t i = 0; i < std::min({static_cast<size_t>(steps), baseline.loss.size(), candidate.loss.size()}); ++i)
      differences.push_back(candidate.loss[i] - baseline.loss[i]);
    record_.loss.mean = stats::mean(differences);
    return {};
  }

  // A kernel that sums in another order may move a whole row by more than one unit in the last place;
  // how far the plain reference does is the second measure. Nothing where it does not run.
  Result<std::optional<double>> reference_divergence(const LossCurve& baseline, int64_t steps) {
    const fs::path source = request_.target->reference(*request_.engine);
    report(request_.progress, {0, 0, "", "the plain reference in the seam"});
    KL_TRY(const auto built, builder_of_libraries().build({.source = source}));
    auto outcome = session_->run_leg(Arm::baseline, [&](TrainerPlan& plan) {
      plan.libraries[seam_] = seam_library(built);
      plan.skip_eval = true;
    });
    if (std::holds_alternative<LegFailure>(outcome)) return std::optional<double>();
    return std::optional(divergence(loss_curve(std::get<CompletedLeg>(outcome).run), baseline, steps));
  }

  // Always false, so that a caller can stop on it.
  bool failed(const LegFailure& failure) {
    input_.failure = failure.reason;
    input_.failure_text = failure.text;
    input_.failure_remedy = failure.remedy;
    if (failure.arm == Arm::candidate && session_) {
      const LossCurve curve = loss_curve(failure.run);
      Gate gate = finite_and_tame(session_->curves(Arm::baseline), std::span(&curve, 1));
      if (gate.ran && !gate.passed) record_.gates.l0 = std::move(gate);
    }
    return false;
  }

  void conclude() {
    summarise_legs();
    input_.gates = record_.gates;
    input_.mean_log_total = record_.mean_log_total;
    input_.maths = request_.target->maths;
    input_.max_pairs = request_.max_pairs;
    const auto verdict = integration_verdict(input_);
    record_.status = verdict.status;
    record_.reason = verdict.reason;
    record_.explanation = verdict.explanation;
    record_.remedy = verdict.remedy;
    record_.n_needed = verdict.n_needed;
    record_.look = input_.look;
    if (shadowed() && record_.status == Status::validated) judge_path();
    add_notices();
  }

  void judge_path() {
    const auto& look = *record_.path_look;
    const std::string gain =
        fmt::format("{:+.2f} % of speed there ({:+.2f} to {:+.2f} %)", 100 * look.speed_up,
                    100 * look.speed_up_low, 100 * look.speed_up_high);
    if (look.decision == stats::AbDecision::faster) {
      record_.explanation += "; it beats the path that the preset runs, too: " + gain;
      return;
    }
    const bool decided = look.decision != stats::AbDecision::inconclusive && look.decision != stats::AbDecision::next_look;
    const IntegrationVerdict open = undecided_verdict(look, request_.max_pairs);
    record_.status = decided ? Status::mixed : Status::inconclusive;
    record_.reason = decided ? "shadowed" : open.reason;
    record_.n_needed = decided ? 0 : open.n_needed;
    record_.explanation = fmt::format("faster than the champion of its seam, but {} than the path that the preset runs: {}",
                                      decided ? "not faster" : "not shown to be faster", gain);
    record_.remedy = decided ? "a gain for the kernel alone: use a preset whose path has this seam" : open.remedy;
  }

  void summarise_legs() {
    std::vector<Leg> baseline;
    std::vector<double> rate_before, rate_after, totals;
    std::vector<int64_t> bytes_before, bytes_after;
    for (const auto& pair : record_.pairs) {
      record_.orders.push_back(pair.order);
      baseline.push_back(pair.baseline);
      rate_before.push_back(pair.baseline.tokens_per_s);
      rate_after.push_back(pair.candidate.tokens_per_s);
      bytes_before.push_back(pair.baseline.peak_bytes);
      bytes_after.push_back(pair.candidate.peak_bytes);
      totals.push_back(pair.log_total);
    }
    if (baseline.empty()) return;
    record_.mean_log_total = stats::mean(totals);
    // Other work does not slow all parts of a step alike: a share beside it is none of the trainer's.
    if (const std::string busy = record_.load ? disturbance(*record_.load) : ""; busy.empty())
      record_.seam_share = mean_seam_share(baseline);
    else
      record_.notices.push_back(busy + ": the seams' shares of the step are not used");
    record_.baseline_tokens_per_s = stats::median(rate_before);
    record_.candidate_tokens_per_s = stats::median(rate_after);
    record_.gates.memory = memory_within(bytes_before, bytes_after);
    const auto median = [](const std::vector<int64_t>& bytes) {
      return static_cast<int64_t>(stats::median(std::vector<double>(bytes.begin(), bytes.end())));
    };
    record_.baseline_peak_bytes = median(bytes_before);
    record_.candidate_peak_bytes = median(bytes_after);
    record_.leg_seconds = baseline.front().step_ns * 1e-9 * static_cast<double>(record_.steps_per_leg);
  }

  void add_notices() {
    constexpr double kFarBeyond = 1.5;
    if (request_.leg_seconds > 0 && record_.leg_seconds > kFarBeyond * request_.leg_seconds)
      record_.notices.push_back(fmt::format("a leg took {:.0f} s of steps, not {:g}: fewer than {} steps of {:.0f} ms cannot be compared",
                                            record_.leg_seconds, request_.leg_seconds, record_.steps_per_leg,
                                            1e3 * record_.leg_seconds / static_cast<double>(record_.steps_per_leg)));
    if (request_.tries > 1 && record_.status == Status::validated)
      record_.notices.push_back(fmt::format(
          "picked out of {} tries: it needs one fresh confirmation before it can be promoted", request_.tries));
    if (record_.loss.allowed_rms > 0 && record_.loss.mean < -record_.loss.allowed_rms)
      record_.notices.push_back(fmt::format(
          "the loss is lower by {:.3g} nats than rounding explains: find out why", -record_.loss.mean));
    const auto share = record_.seam_share.find(seam_);
    if (!request_.bench || record_.pairs.empty() || share == record_.seam_share.end()) return;
    record_.amdahl = stats::amdahl_check(*request_.bench, share->second, record_.look.interval);
    if (record_.amdahl->warn)
      record_.notices.push_back(fmt::format(
          "the bench and a share of {:.1f} % predict {:+.2f} % of the step; {:+.2f} % was seen: the bench "
          "does not stand for the trainer",
          100 * share->second, 100 * std::expm1(record_.amdahl->predicted_log_ratio),
          100 * std::expm1(record_.amdahl->seen_log_ratio)));
  }

 public:
  Outcome keep() {
    if (request_.samples.empty() || !session_ || record_.pairs.empty()) return {};
    KL_TRY(record_.samples_file, keep_samples(*session_, record_.pairs, request_.samples));
    return {};
  }

 private:
  const IntegrationRequest& request_;
  IntegrationRecord& record_;
  TrainerClient trainer_;
  std::string seam_, dtype_;
  Json overrides_ = request_.overrides;  // with what opens a shadowed seam
  SeamLibraries path_;                   // of the preset's own path, where the seam is shadowed
  SeamCalls calls_per_step_;
  bool takes_turns_ = false;
  SeamLibraries baseline_, candidate_;
  std::optional<PairSession> session_;
  std::vector<int64_t> snapshots_;
  VerdictInput input_;
};

void take_error(IntegrationRecord& record, const Error& error) {
  record.status = error.status;
  record.reason = error.what;
  record.explanation = error.what;
  record.remedy = error.remedy;
}

}  // namespace

IntegrationRecord integration_ab(const IntegrationRequest& request) {
  const int64_t begin = monotonic_ns();
  auto record = new_record<IntegrationRecord>();
  record.engine = request.engine->name();
  record.target = request.target->key;
  record.preset = request.preset;
  record.workspace = request.workspace;
  record.against = request.against;
  record.tries = request.tries;
  record.seed = request.seed;
  record.warmup_steps = request.warmup_steps;
  record.max_pairs = stats::rounded_look(request.max_pairs);
  record.session = request.machine();
  record.identity.fingerprint_class = fingerprint_class(*request.engine).hash();
  IntegrationRequest rounded = request;
  rounded.max_pairs = record.max_pairs;
  Comparison comparison(rounded, record);
  if (const auto outcome = comparison.run(); !outcome.ok()) take_error(record, outcome.error());
  if (const auto kept = comparison.keep(); !kept.ok())
    record.notices.push_back("the raw samples could not be kept: " + kept.error().what);
  record.wall_seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  return record;
}

}  // namespace kl
