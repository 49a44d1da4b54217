#include <lab/integration/aa.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <lab/stats/ab_look.hpp>
#include <lab/stats/moments.hpp>
#include <lab/stats/quantile.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

constexpr int64_t kProbeSteps = 30;

Json run_samples(const TrainerRun& run) {
  Json ns = Json::array(), loss = Json::array(), norm = Json::array(), warmup = Json::array();
  for (const auto& step : run.steps) {
    ns.push_back(step.ns);
    loss.push_back(step.loss);
    norm.push_back(step.grad_norm);
    warmup.push_back(step.warmup);
  }
  return {{"ns", ns}, {"loss", loss}, {"grad_norm", norm}, {"warmup", warmup},
          {"peak_bytes", run.memory_peak_bytes.value_or(0)}};
}

void fail(AaRecord& record, Status status, std::string reason, std::string remedy) {
  record.status = status;
  record.reason = std::move(reason);
  record.remedy = std::move(remedy);
}

void fail(AaRecord& record, const LegFailure& failure) {
  fail(record, Status::execution_failed, failure.reason + ": " + failure.text, failure.remedy);
}

void summarise(AaRecord& record) {
  std::vector<Leg> legs;
  std::vector<double> step_ns, rates;
  for (const auto& pair : record.pairs)
    for (const Leg* leg : {&pair.baseline, &pair.candidate}) {
      legs.push_back(*leg);
      step_ns.push_back(leg->step_ns);
      rates.push_back(leg->tokens_per_s);
      record.peak_bytes = std::max(record.peak_bytes, leg->peak_bytes);
    }
  record.seam_share = mean_seam_share(legs);
  record.step_ns = stats::median(step_ns);
  record.tokens_per_s = stats::median(rates);
  record.leg_seconds = record.step_ns * 1e-9 * static_cast<double>(record.steps_per_leg);
  record.s_aa = stats::standard_deviation(record.log_ratios);
  record.delta_eff = stats::effective_delta(record.s_aa);
  if (const std::string why = why_unstable(record.s_aa, record.load); why.empty())
    record.status = Status::ok;
  else
    fail(record, Status::unstable, why, kQuietMachine);
}

// On a device of its own a step does not wait for the host's processors.
bool load_is_of_the_step(const AaRequest& request) { return !request.engine->readings(); }

Outcome prepare(const AaRequest& request, const TrainerClient& trainer, AaRecord& record,
                SeamLibraries& libraries, bool& takes_turns) {
  KL_TRY(const auto preset, trainer.preset(request.preset));
  KL_TRY(const TrainerPath path, trainer.path(request.preset));
  const Builder builder = request.library_cache.empty() ? Builder(*request.engine)
                                                        : Builder(*request.engine, request.library_cache);
  KL_TRY(libraries, champion_libraries(*request.engine, builder, *request.catalogue, path.seams));
  takes_turns = preset.turns.value_or(false);
  KL_TRY(record.identity.trainer, trainer.identity(preset));
  record.identity.seams = seams_hash(libraries, "");
  record.identity.fingerprint_class = fingerprint_class(*request.engine).hash();
  return {};
}

// The first run of the session: discarded, and the measure of the leg.
std::optional<LegFailure> find_leg_length(const AaRequest& request, bool takes_turns,
                                          PairSession& session, AaRecord& record) {
  report(request.progress, {0, 0, "", fmt::format("first run of {}, discarded", request.preset)});
  session.set_steps(request.steps > 0 ? request.steps : kProbeSteps);
  auto probe = session.run_leg(Arm::baseline);
  if (auto* failure = std::get_if<LegFailure>(&probe)) return std::move(*failure);
  const double step_ns = record.step_ns = std::get<CompletedLeg>(probe).leg.step_ns;
  if (request.steps <= 0) session.set_steps(steps_per_leg(step_ns, request.leg_seconds));
  if (takes_turns) session.cut_into_turns(turns_for(step_ns));
  return std::nullopt;
}

void measure(const AaRequest& request, bool takes_turns, PairSession& session, AaRecord& record) {
  if (auto failure = find_leg_length(request, takes_turns, session, record)) return fail(record, *failure);
  record.steps_per_leg = session.steps();
  record.turns = session.plan().turn_count();
  if (request.pairs == 0) {
    record.status = Status::ok;
    return;
  }
  const auto before = load_is_of_the_step(request) ? request.processor_time() : std::nullopt;
  for (int i = 0; i < request.pairs; ++i) {
    report(request.progress, {static_cast<double>(i), static_cast<double>(request.pairs), "pairs",
                              fmt::format("A/A pairs of {}", request.preset)});
    auto outcome = session.next_pair();
    if (auto* failure = std::get_if<LegFailure>(&outcome)) return fail(record, *failure);
    record.pairs.push_back(std::get<Pair>(std::move(outcome)));
    record.log_ratios.push_back(record.pairs.back().log_ratio);
  }
  if (before) record.load = load_between(before, request.processor_time());
  summarise(record);
  if (request.samples.empty()) return;
  if (const auto kept = keep_samples(session, record.pairs, request.samples))
    record.samples_file = *kept;
  else
    fail(record, kept.error().status, kept.error().what, kept.error().remedy);
}

}  // namespace

std::string why_unstable(double s_aa, const std::optional<MachineLoad>& load) {
  if (load)
    if (std::string why = disturbance(*load); !why.empty()) return why;
  const double delta = stats::effective_delta(s_aa);
  if (delta <= kLargestDeltaEff) return {};
  return fmt::format("the A/A pairs scatter by {:.1f} %: no effect under {:.1f} % could be decided, and {:g} % is the most that makes sense",
                     100 * s_aa, 100 * delta, 100 * kLargestDeltaEff);
}

std::map<std::string, double> mean_seam_share(const std::vector<Leg>& legs) {
  std::map<std::string, double> share;
  for (const auto& leg : legs)
    for (const auto& [seam, part] : leg.seam_share) share[seam] += part;
  for (auto& [seam, part] : share) part /= static_cast<double>(legs.size());
  return share;
}

Result<std::string> keep_samples(const PairSession& session, const std::vector<Pair>& pairs,
                                 const fs::path& store) {
  Json json = {{"warmup_steps", session.plan().warmup_steps},
               {"steps", session.steps()},
               {"turns", session.plan().turn_count()}};
  for (const Arm arm : {Arm::baseline, Arm::candidate}) {
    Json runs = Json::array();
    for (const auto& run : session.runs(arm)) runs.push_back(run_samples(run));
    json[std::string(to_string(arm))] = std::move(runs);
  }
  json["pairs"] = Json::array();
  for (const auto& pair : pairs) json["pairs"].push_back(to_json(pair));
  return ObjectStore(store).put(dump_line(json), ".json");
}

AaRecord run_aa(const AaRequest& request) {
  const int64_t begin = monotonic_ns();
  auto record = new_record<AaRecord>();
  record.engine = request.engine->name();
  record.preset = request.preset;
  record.warmup_steps = request.warmup_steps;
  const TrainerClient trainer(request.trainer.empty() ? TrainerClient::builtin() : request.trainer,
                              request.trainer_arguments);
  SeamLibraries libraries;
  bool takes_turns = false;
  if (const auto ready = prepare(request, trainer, record, libraries, takes_turns); !ready.ok()) {
    fail(record, ready.error().status, ready.error().what, ready.error().remedy);
  } else {
    TrainerPlan plan;
    plan.preset = request.preset;
    plan.overrides = request.overrides;
    plan.seed = request.seed;
    plan.warmup_steps = request.warmup_steps;
    PairSession session(trainer, plan, libraries, libraries);
    session.leg_timeout_seconds = request.leg_timeout_seconds;
    measure(request, takes_turns, session, record);
  }
  record.wall_seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  return record;
}

}  // namespace kl
