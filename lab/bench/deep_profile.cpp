#include <lab/bench/deep_profile.hpp>

#include <lab/bench/arm.hpp>
#include <lab/bench/case_costs.hpp>
#include <lab/bench/perf_counters.hpp>
#include <lab/build/builder.hpp>
#include <lab/core/clock.hpp>
#include <lab/core/fingerprint.hpp>
#include <lab/stats/quantile.hpp>
#include <lab/verify/call_site.hpp>
#include <lab/verify/worker_limits.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace kl {
namespace {

constexpr int kWarmUpRounds = 2;

// Per training step, cold.
struct StepSums {
  double ns = 0, processor_ns = 0;
  double bytes = 0, flops = 0;
  double floor_ns = 0;        // of moving the bytes at their ceilings
  bool ceilings_known = true;
};

class DeepProfile {
 public:
  DeepProfile(const DeepProfileRequest& request, DeepProfileRecord& record)
      : request_(request), record_(record), target_(request.target->for_engine(request.engine->name())), random_(seed_from_system()) {}

  Outcome run() {
    const Builder builder(*request_.engine);
    KL_TRY(const BuiltLibrary built, builder.build({request_.champion, "", {}}));
    record_.kernel_hash = built.source_hash;
    KL_TRY(const OracleLibrary oracle, open_oracle(builder, target_.oracle(), target_.key));
    for (const SeamShape& shape : request_.shapes) {
      KL_TRY(SeamCase made, SeamCase::create(target_, shape, random_()));
      cases_.push_back(std::move(made));
    }
    slots_ = call_slots(target_, cases_.size());
    ns_.resize(slots_.size());
    processor_ns_.resize(slots_.size());
    const auto measured = measure(built);
    if (const auto* fault = std::get_if<Fault>(&measured))
      return make_error(Status::profile_failed, fmt::format("the champion stopped: {}: {}", fault->rule, fault->proof),
                        fmt::format("kernel-lab verify --champions finds what is wrong with {}", target_.key));
    return conclude(oracle);
  }

 private:
  int64_t calls_per_step(const CallSlot& slot) const {
    return cases_[slot.seam_case].shape.calls_of(target_.operations[slot.operation].name);
  }

  OrFault<std::monostate> measure(const BuiltLibrary& built) {
    KL_FAULT_TRY(const std::unique_ptr<Worker> worker, Worker::start(worker_limits(*request_.engine)));
    KL_FAULT_TRY(const ArmId library, worker->load(built.path, target_.key, target_.services));
    KL_FAULT_TRY(Arm arm, Arm::create(*worker, target_, cases_, library, std::nullopt));
    for (int round = 0; round < kWarmUpRounds; ++round) {
      KL_FAULT_TRY([[maybe_unused]] const auto warm, step(*worker, arm, nullptr));
    }
    // After the warm-up all threads of the pool are there.
    PerfCounters counters(worker->process_id(), hardware_events());
    const int64_t begin = monotonic_ns();
    double seconds = 0;
    do {
      KL_FAULT_TRY([[maybe_unused]] const auto done, step(*worker, arm, &counters));
      seconds = 1e-9 * static_cast<double>(monotonic_ns() - begin);
      report(request_.progress, {std::min(seconds, request_.seconds), request_.seconds, "s", target_.key});
    } while (seconds < request_.seconds);
    readings_ = counters.read();
    return std::monostate{};
  }

  // Every forward, then every backward in reverse, the caches flushed before each: as bench's cold letters.
  OrFault<std::monostate> step(Worker& worker, Arm& arm, PerfCounters* counters) {
    for (size_t operation = 0; operation < target_.operations.size(); ++operation) {
      std::vector<size_t> phase;
      for (size_t s = 0; s < slots_.size(); ++s)
        if (slots_[s].operation == operation && calls_per_step(slots_[s]) > 0) phase.push_back(s);
      if (operation > 0) std::reverse(phase.begin(), phase.end());
      for (const size_t s : phase) {
        KL_FAULT_TRY([[maybe_unused]] const auto renewed, arm.renew(slots_[s], random_));
      }
      KL_FAULT_TRY([[maybe_unused]] const auto flushed, worker.flush_caches());
      for (const size_t s : phase) {
        if (counters != nullptr) counters->start();
        auto ran = arm.run(slots_[s], false);
        if (counters != nullptr) counters->stop();
        KL_FAULT_TRY(const CallTiming timing, std::move(ran));
        if (counters == nullptr) continue;
        ns_[s].push_back(static_cast<double>(timing.worker_ns));
        processor_ns_[s].push_back(static_cast<double>(timing.processor_ns));
        ++record_.calls;
      }
    }
    return std::monostate{};
  }

  Result<StepSums> sums(const OracleLibrary& oracle) {
    StepSums sum;
    for (size_t s = 0; s < slots_.size(); ++s) {
      if (ns_[s].empty()) continue;
      const auto calls = static_cast<double>(calls_per_step(slots_[s]));
      KL_TRY(const oracle::Cost cost, cost_of(oracle, cases_[slots_[s].seam_case].pool.operations[slots_[s].operation]));
      const double bytes = cost.bytes_read + cost.bytes_written;
      sum.ns += calls * stats::median(ns_[s]);
      sum.processor_ns += calls * stats::median(processor_ns_[s]);
      sum.bytes += calls * bytes;
      sum.flops += calls * cost.flops;
      if (bytes <= 0) continue;
      if (const auto ceiling = ceiling_gb_per_s(request_.ceilings, bytes, cost.bytes_read / bytes))
        sum.floor_ns += calls * bytes / *ceiling;
      else
        sum.ceilings_known = false;
    }
    return sum;
  }

  void used(std::string name, double value, std::string unit) {
    record_.metrics.push_back({std::move(name), value, std::move(unit), "used", ""});
  }
  // A share of a peak, by the cost model's count: missing without the peak, flagged where it cannot be.
  std::optional<double> share(const std::string& name, const std::string& counted, std::optional<double> value,
                              const std::string& why_missing) {
    if (!value) {
      record_.metrics.push_back({name, {}, "share of peak", "missing", why_missing});
      return {};
    }
    if (*value > kImpossibleShare) {
      record_.metrics.push_back({name, {}, "share of peak", "missing",
                                 fmt::format("{:.0f} % of the peak is impossible: the cost model counts too much, or the "
                                             "calibration ran on a busier machine",
                                             100 * *value)});
      return {};
    }
    record_.metrics.push_back({name, value, "share of peak", "substituted",
                               "the cost model's " + counted + " over time stand in for a counter"});
    return value;
  }

  Outcome conclude(const OracleLibrary& oracle) {
    KL_TRY(const StepSums sum, sums(oracle));
    if (record_.calls == 0 || sum.ns <= 0)
      return make_error(Status::insufficient_metrics, fmt::format("preset {} calls no operation of {}", request_.preset, target_.key),
                        "choose a preset that runs its seam");
    used("seam_ns_per_step", sum.ns, "ns");
    used("model_bytes_per_step", sum.bytes, "bytes");
    used("model_flops_per_step", sum.flops, "operations");
    const std::string calibrate = "no such ceiling on file: kernel-lab calibrate";
    ResourceShares shares;
    shares.bandwidth = share("bandwidth", "bytes", sum.ceilings_known && sum.bytes > 0 ? std::optional(sum.floor_ns / sum.ns) : std::nullopt,
                             sum.bytes > 0 ? calibrate : "the cost model counts no bytes");
    std::optional<double> compute;
    if (request_.fp32_tflop_per_s) compute = sum.flops / sum.ns * 1e-3 / *request_.fp32_tflop_per_s;
    shares.compute = share("compute", "operations", compute, calibrate);
    if (sum.processor_ns > 0) {
      shares.busy_threads = std::min(1.0, sum.processor_ns / (sum.ns * usable_cores()));
      used("busy_threads", *shares.busy_threads, "share of the threads' time");
    }
    take_counters(shares);
    for (const auto& [name, value] : {std::pair{"compute", shares.compute}, {"bandwidth", shares.bandwidth},
                                      {"busy_threads", shares.busy_threads}, {"stalled", shares.stalled}})
      if (value) record_.split[name] = *value;
    const Diagnosis found = diagnose(shares);
    record_.diagnosis = found.label;
    record_.confidence = found.confidence;
    record_.explanation = found.why;
    if (found.label.empty())
      return make_error(Status::insufficient_metrics, found.why, "kernel-lab calibrate measures this machine's ceilings");
    record_.status = Status::ok;
    return {};
  }

  // Counters add stalls and rates; what a kernel is bound by still comes from the ceilings, since no counter
  // of all processors counts bytes or operations.
  void take_counters(ResourceShares& shares) {
    const auto value_of = [&](std::string_view name) -> std::optional<double> {
      for (const auto& reading : readings_)
        if (reading.name == name) return reading.value;
      return {};
    };
    for (const auto& reading : readings_) {
      if (reading.value)
        used(reading.name + "_per_call", *reading.value / static_cast<double>(record_.calls), "events");
      else
        record_.metrics.push_back({reading.name + "_per_call", {}, "events", "missing",
                                   reading.missing + (reading.remedy.empty() ? "" : ": " + reading.remedy)});
    }
    const auto cycles = value_of("cycles"), instructions = value_of("instructions"), stalled = value_of("stalled_cycles");
    const bool counted = cycles && instructions && *cycles > 0;
    record_.method = counted ? "perf-counters" : "roofline";
    if (counted) used("instructions_per_cycle", *instructions / *cycles, "instructions");
    if (counted && stalled && *stalled <= *cycles) shares.stalled = *stalled / *cycles;
  }

  const DeepProfileRequest& request_;
  DeepProfileRecord& record_;
  Target target_;
  std::mt19937_64 random_;
  std::vector<SeamCase> cases_;
  std::vector<CallSlot> slots_;
  std::vector<std::vector<double>> ns_, processor_ns_;  // by slot
  std::vector<CounterReading> readings_;
};

}  // namespace

DeepProfileRecord deep_profile(const DeepProfileRequest& request) {
  const int64_t begin = monotonic_ns();
  auto record = new_record<DeepProfileRecord>();
  record.engine = request.engine->name();
  record.target = request.target->key;
  record.preset = request.preset;
  Outcome outcome = request.engine->usable();
  if (outcome.ok() && !request.engine->can_deep_profile())
    outcome = make_error(Status::missing_tool, fmt::format("no counters of engine {} are read: its runner of ncu is not built", record.engine),
                         "run `ncu --set full` by hand, and say what it shows with kernel-lab review-trace");
  if (outcome.ok() && request.shapes.empty())
    outcome = make_error(Status::insufficient_metrics, fmt::format("preset {} calls {} at no shape", request.preset, record.target),
                         "choose a preset that runs its seam");
  if (outcome.ok()) outcome = DeepProfile(request, record).run();
  if (!outcome.ok()) {
    const bool build = outcome.error().status == Status::build_failed || outcome.error().status == Status::unsupported_target;
    record.status = build ? Status::profile_failed : outcome.error().status;
    record.reason = outcome.error().what;
    record.remedy = outcome.error().remedy;
  }
  record.wall_seconds = 1e-9 * static_cast<double>(monotonic_ns() - begin);
  return record;
}

}  // namespace kl
