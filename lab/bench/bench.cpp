#include <lab/bench/bench.hpp>

#include <lab/bench/case_costs.hpp>
#include <lab/bench/other_cases.hpp>
#include <lab/bench/session.hpp>
#include <lab/build/builder.hpp>
#include <lab/core/clock.hpp>
#include <lab/core/fingerprint.hpp>
#include <lab/core/hash.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <lab/verify/harness_hash.hpp>
#include <lab/verify/worker_limits.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kl {
namespace {

constexpr double kCheckShare = 0.1;         // of a process's time for whole checks
constexpr double kOracleNsPerElement = 70;  // a tracking oracle on one core, roughly
constexpr double kMostWholeChecks = 3;      // in one process
constexpr double kFewWholeChecks = 0.01;    // beside the last letter

// No honest kernel was seen to move bytes this much faster than the best copy of the same footprint
// and mix, or than the baseline beside it where that is faster still (a noisy calibration).
constexpr double kBeyondMeasured = 1.5;

std::string axes_text(const SeamShape& shape) {
  std::string text;
  for (const auto& [axis, length] : shape.axes)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis, length);
  return text;
}

// Which of the processes are controls: spread evenly, the first one always.
std::vector<bool> control_places(int processes, int controls) {
  std::vector<bool> places(static_cast<size_t>(processes + controls));
  for (int c = 0; c < controls; ++c)
    places[places.size() * static_cast<size_t>(c) / static_cast<size_t>(controls)] = true;
  return places;
}

double elements_of(const std::vector<SeamCase>& cases) {
  double elements = 0;
  for (const SeamCase& seam_case : cases)
    for (const OperationData& operation : seam_case.pool.operations) {
      for (const TensorData& t : operation.inputs) elements += static_cast<double>(t.size());
      for (const TensorData& t : operation.outputs) elements += static_cast<double>(t.size());
    }
  return elements;
}

class Bench {
 public:
  explicit Bench(const BenchRequest& request)
      : request_(request),
        target_(request.target->for_engine(request.engine->name())),
        rule_(request.rule.value_or(bench_rule(request.mode))),
        record_(new_record<BenchRecord>()) {}

  BenchRecord run() {
    const int64_t begin = monotonic_ns();
    describe_request();
    if (const Outcome outcome = measure_and_judge(); !outcome.ok()) {
      record_.status = outcome.error().status;
      record_.reason = outcome.error().what;
      record_.remedy = outcome.error().remedy;
    }
    record_.wall_seconds = 1e-9 * static_cast<double>(monotonic_ns() - begin);
    return std::move(record_);
  }

 private:
  void describe_request();
  Outcome measure_and_judge();
  Outcome build();
  Outcome draw_cases();
  Outcome run_sessions();
  bool take(const SessionResult& result);
  void blame(const SessionResult& result);
  Outcome judge();
  Outcome keep_samples();
  void check_peak();
  void note_device(const char* when) {
    if (const auto readings = request_.engine->readings())
      record_.details[when] = to_json(*readings);
  }
  void advise();
  void end(Status status, std::string reason, std::string rule, std::string proof,
           std::string remedy) {
    record_.status = status;
    record_.reason = std::move(reason);
    record_.rule = std::move(rule);
    record_.proof = std::move(proof);
    record_.remedy = std::move(remedy);
    ended_ = true;
  }

  const BenchRequest& request_;
  Target target_;  // with the engine's own element types
  stats::BenchRule rule_;
  BenchRecord record_;
  BuiltLibrary candidate_, baseline_;
  std::optional<OracleLibrary> oracle_;
  std::vector<SeamCase> cases_;
  BenchSamples samples_;
  bool ended_ = false;
};

void Bench::describe_request() {
  record_.engine = request_.engine->name();
  record_.target = target_.key;
  record_.preset = request_.preset;
  record_.workspace = request_.workspace;
  record_.baseline = request_.baseline_name;
  record_.mode = to_string(request_.mode);
  record_.seed = request_.seed ? *request_.seed : seed_from_system();
  record_.delta = rule_.delta;
  record_.details["rule"] = to_json(rule_);
  record_.identity.harness = harness_identity(target_);
  record_.identity.fingerprint_class = fingerprint_class(*request_.engine).hash();
}

Outcome Bench::measure_and_judge() {
  KL_CHECK(request_.engine->usable());
  KL_CHECK(build());
  if (ended_) return {};
  KL_CHECK(draw_cases());
  const ClockWatch clocks;
  note_device("device_before");
  const Outcome ran = run_sessions();
  note_device("device_after");
  record_.clocks = clocks.finish();
  KL_CHECK(ran);
  KL_CHECK(keep_samples());
  if (!ended_) KL_CHECK(judge());
  return {};
}

Outcome Bench::build() {
  const Builder builder(*request_.engine);
  KL_TRY(candidate_, builder.build({request_.candidate, "", {}}));
  record_.kernel_hash = record_.identity.kernel = candidate_.source_hash;
  record_.identity.flags = candidate_.flags_hash;
  record_.compile = candidate_.report;
  KL_TRY(baseline_, builder.build({request_.baseline, "", {}}));
  record_.baseline_hash = record_.identity.baseline = baseline_.source_hash;
  record_.baseline_compile = baseline_.report;
  KL_TRY(auto loaded, open_oracle(builder, target_.oracle(), target_.key));
  oracle_.emplace(std::move(loaded));

  if (const auto broken = candidate_.broken_rule())
    end(Status::rejected, broken->rule, broken->rule, broken->proof, broken->remedy);
  return {};
}

Outcome Bench::draw_cases() {
  if (request_.shapes.empty())
    return make_error(
        Status::unsupported_target,
        fmt::format("preset {} calls {} at no shape", request_.preset, target_.key),
        "choose a preset whose trainer has this seam");
  samples_.target = target_.key;
  samples_.preset = request_.preset;
  samples_.threads = usable_cores();
  std::string plan = fmt::format("bench {} delta={:a}\n", record_.mode, rule_.delta);
  std::vector<SeamShape> shapes = request_.shapes;
  for (SeamShape& beside : cases_beside_the_step(target_, request_.shapes))
    shapes.push_back(std::move(beside));
  for (size_t s = 0; s < shapes.size(); ++s) {
    const SeamShape& shape = shapes[s];
    KL_TRY(SeamCase made, SeamCase::create(target_, shape,
                                           derive_seed(record_.seed, fmt::format("pool {}", s))));
    cases_.push_back(std::move(made));
    plan += dump_line(to_json(shape)) + "\n";
    samples_.shapes.push_back(axes_text(shape));
    for (const OperationSpec& operation : target_.operations) {
      samples_.slots.push_back(operation.name + " " + axes_text(shape));
      samples_.calls_per_step.push_back(shape.calls_of(operation.name));
    }
  }
  record_.identity.case_plan = sha256_hex(plan);
  return {};
}

Outcome Bench::run_sessions() {
  const TimedChecker checker(target_, *oracle_);
  SessionSetup setup;
  setup.target = &target_;
  setup.cases = &cases_;
  setup.checker = &checker;
  setup.baseline = baseline_.path;
  setup.limits = {rule_.delta, rule_.process_cap_seconds, rule_.fewest_blocks, 0.95};
  setup.worker = worker_limits(*request_.engine);
  setup.worker.call_seconds = std::max(10.0, 2 * rule_.process_cap_seconds);
  setup.clocks = request_.clocks ? request_.clocks : clocks_of(*request_.engine);
  setup.seed = record_.seed;

  // Large calls are checked on all cores.
  const double affordable = kCheckShare * rule_.process_cap_seconds * 1e9 /
                            (kOracleNsPerElement * elements_of(cases_));
  std::mt19937_64 random(derive_seed(record_.seed, "whole checks"));
  const int chosen = std::uniform_int_distribution<int>(0, rule_.processes - 1)(random);

  const auto controls = control_places(rule_.processes, rule_.control_processes);
  int with_both = 0, alone = 0;
  for (size_t i = 0; i < controls.size() && !ended_; ++i) {
    int& nth = controls[i] ? alone : with_both;
    setup.index = static_cast<int>(i);
    setup.control = controls[i];
    setup.candidate = controls[i] ? baseline_.path : candidate_.path;
    setup.candidate_first = nth % 2 == 1;
    setup.whole_checks = std::min(affordable, kMostWholeChecks);
    // The last letter of a process that has any is always compared wholly; of one process at least.
    if (affordable < 1)
      setup.whole_checks = controls[i] || nth != chosen ? 0 : std::max(affordable, kFewWholeChecks);
    ++nth;
    KL_TRY(const SessionResult result, run_session(setup));
    if (!take(result)) blame(result);
    report(request_.progress, {static_cast<double>(i + 1), static_cast<double>(controls.size()),
                               "processes", controls[i] ? "control" : "both arms"});
  }
  record_.processes = with_both;
  record_.control_processes = alone;
  return {};
}

bool Bench::take(const SessionResult& result) {
  record_.timed_calls += result.timed_calls;
  record_.calls_checked += result.calls_checked;
  record_.elements_checked += result.elements_checked;
  record_.blocks += blocks_of(result.series);
  record_.blocks_set_aside += static_cast<int64_t>(result.series.set_aside.size());
  record_.confinement = {{"landlock", result.confinement.landlock},
                         {"seccomp", result.confinement.seccomp},
                         {"no_new_privs", result.confinement.no_new_privs},
                         {"outputs_locked", result.confinement.outputs_locked}};
  if (!result.confinement.relaxed.empty())
    record_.confinement["relaxed"] = result.confinement.relaxed;
  if (!result.series.control) {
    if (!result.refusals.empty()) record_.details["outside_domain"] = result.refusals;
    if (!result.printed.empty()) record_.details["printed"] = result.printed.substr(0, 2000);
  }
  samples_.processes.push_back(result.series);
  return !result.fault;
}

// The first process is a control: a baseline that fails there fails by itself; one that fails only
// beside the candidate has been disturbed.
void Bench::blame(const SessionResult& result) {
  const SessionFault& f = *result.fault;
  record_.failing = f.failing;
  if (result.series.control)
    return end(Status::error, "baseline-failed", f.fault.rule, f.fault.proof,
               fmt::format("run verify on the {}", request_.baseline_name));
  if (f.in_baseline && f.fault.rule == "timed-call-wrong")
    return end(Status::rejected, "baseline-disturbed", "baseline-disturbed",
               "beside the candidate only, the baseline is wrong: " + f.fault.proof,
               "find what the candidate changes outside its outputs");
  end(f.fault.status, f.fault.rule, f.fault.rule,
      (f.in_baseline ? "while the baseline ran beside the candidate: " : "") + f.fault.proof,
      "fix the kernel; verify gives the details");
}

Outcome Bench::judge() {
  const SeriesVerdict verdict = judge_series(samples_, rule_);
  record_.status = verdict.status;
  record_.reason = verdict.reason;
  record_.proof = verdict.proof;
  if (!verdict.proof.empty()) record_.rule = verdict.reason;
  record_.ratio = std::exp(verdict.cold.mean_log_ratio);
  record_.t95 = verdict.cold.t_95;
  record_.walsh95 = verdict.cold.walsh_95;
  record_.t90 = verdict.cold.t_90;
  record_.process_sd = verdict.cold.sd;
  record_.samples_needed = verdict.samples_needed;
  record_.warm_ratio = std::exp(verdict.warm.mean_log_ratio);
  record_.warm_t95 = verdict.warm.t_95;
  record_.candidate = {verdict.candidate_cold_ns, verdict.candidate_warm_ns};
  record_.baseline_time = {verdict.baseline_cold_ns, verdict.baseline_warm_ns};
  record_.controls = verdict.controls;
  record_.clock_agreement = verdict.clocks;
  record_.shapes = verdict.shapes;
  KL_TRY(record_.cases, case_lines(*oracle_, cases_, samples_, request_.ceilings));
  check_peak();
  advise();
  return {};
}

Outcome Bench::keep_samples() {
  if (request_.samples.empty()) return {};
  KL_CHECK(make_directories(request_.samples));
  KL_TRY(record_.samples_file,
         ObjectStore(request_.samples).put(dump_line(to_json(samples_)), ".json"));
  return {};
}

// Faster, cold, than the memory can deliver the model's bytes: either the model counts too many or
// the caches were not cold. Where nobody knows the theoretical peak, what was measured stands in.
void Bench::check_peak() {
  const auto& theoretical = request_.theoretical_peak_gb_per_s;
  record_.peak_check = "unknown";
  std::string proof;
  for (const BenchCase& line : record_.cases) {
    if (!theoretical && !line.ceiling_gb_per_s) continue;
    const double peak =
        theoretical ? *theoretical
                    : kBeyondMeasured * std::max(*line.ceiling_gb_per_s, line.baseline_gb_per_s);
    record_.peak_source = theoretical ? "theoretical" : "measured";
    record_.peak_check = proof.empty() ? "within" : "beyond";
    if (!(line.candidate_gb_per_s > peak)) continue;
    record_.peak_check = "beyond";
    proof = fmt::format(
        "{} at cold caches moves {:.0f} + {:.0f} model bytes in {:.0f} ns, {:.1f} GB/s; {} {:.1f} "
        "GB/s",
        line.operation, line.bytes_read, line.bytes_written, line.candidate_cold_ns,
        line.candidate_gb_per_s,
        theoretical ? "the memory's theoretical peak is"
                    : "1.5 times the best rate measured here for such a footprint and mix is",
        peak);
  }
  if (record_.peak_check != "beyond" || record_.status == Status::rejected) return;
  record_.status = Status::suspect;
  record_.reason = record_.rule = "impossible";
  record_.proof = proof;
}

void Bench::advise() {
  if (record_.status == Status::inconclusive && record_.samples_needed > 0)
    record_.remedy =
        fmt::format("about {} processes would decide; quick runs {}, normal {}, full {}",
                    record_.samples_needed, stats::kBenchQuick.processes,
                    stats::kBenchNormal.processes, stats::kBenchFull.processes);
  else if (record_.status == Status::inconclusive)
    record_.remedy = "run again on an idle machine";
  else if (record_.reason == kOtherCaseRegressed)
    record_.remedy = "let `accepts` refuse the case the proof names (the champion then runs it), or "
                     "make it as fast there";
  else if (record_.rule == "baseline-disturbed")
    record_.remedy = "find what the candidate changes outside its outputs";
  else if (record_.rule == "forged-timing")
    record_.remedy = "remove what interferes with the clock";
  else if (record_.status == Status::suspect)
    record_.remedy = "explain how fewer bytes than the model's suffice, or correct the model";
}

}  // namespace

stats::BenchRule bench_rule(BenchMode mode) {
  switch (mode) {
    case BenchMode::quick:
      return stats::kBenchQuick;
    case BenchMode::full:
      return stats::kBenchFull;
    default:
      return stats::kBenchNormal;
  }
}

std::string_view to_string(BenchMode mode) {
  switch (mode) {
    case BenchMode::quick:
      return "quick";
    case BenchMode::full:
      return "full";
    default:
      return "normal";
  }
}

BenchRecord bench(const BenchRequest& request) { return Bench(request).run(); }

}  // namespace kl
