#include <lab/verify/verify.hpp>

#include <lab/build/builder.hpp>
#include <lab/build/loader.hpp>
#include <lab/core/clock.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <lab/verify/case_queue.hpp>
#include <lab/verify/case_trial.hpp>
#include <lab/verify/harness_hash.hpp>
#include <lab/verify/later_calls.hpp>
#include <lab/verify/sanitize.hpp>
#include <lab/verify/worker_limits.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kl {

namespace {

constexpr int kLaterRounds = 100;  // of forward and backward, on the smallest strong shape
constexpr int kTrainerRounds = 8;  // on the trainer's smallest shape
constexpr int kLargeRounds = 4;    // where that is a large one
constexpr std::chrono::microseconds kFirstSettle{20000};  // once per shape
constexpr std::chrono::microseconds kSettle{200};

int64_t volume(const CaseGroup& group) {
  int64_t product = 1;
  for (const auto& [axis, length] : group.axes) product *= length;
  return product;
}

bool has_strong(const CaseGroup& group) {
  return std::any_of(group.cases.begin(), group.cases.end(),
                     [](const Case& item) { return item.strong; });
}

// One kernel in one worker, and its call site for the group under trial.
struct Host {
  std::unique_ptr<Worker> worker;
  ArmId arm = -1;
  std::optional<CallSite> site;
  std::optional<Declined> declined;

  static OrFault<Host> start(const BuiltLibrary& library, const Target& target,
                             const WorkerLimits& limits) {
    Host host;
    KL_FAULT_TRY(host.worker, Worker::start(limits));
    KL_FAULT_TRY(host.arm, host.worker->load(library.path, target.key, target.services));
    return host;
  }
  OrFault<std::monostate> enter_group(const CaseData& sample) {
    site.reset();
    declined.reset();
    KL_FAULT_TRY([[maybe_unused]] const auto dropped, worker->drop_buffers());
    KL_FAULT_TRY(auto created, CallSite::create(*worker, arm, sample));
    if (auto* ready = std::get_if<CallSite>(&created))
      site = std::move(*ready);
    else
      declined = std::get<Declined>(created);
    return std::monostate{};
  }
};

// The order of a verification; each step may end it.
class Verification {
 public:
  explicit Verification(const VerifyRequest& request)
      : request_(request),
        target_(request.target->for_engine(request.engine->name())),
        record_(new_record<VerifyRecord>()) {}

  VerifyRecord run() {
    const int64_t begin_ns = monotonic_ns();
    begin();
    if (const Outcome outcome = steps(); !outcome.ok()) end_with(outcome.error());
    if (!failure_ && record_.reason.empty()) conclude();
    record_.wall_seconds = static_cast<double>(monotonic_ns() - begin_ns) * 1e-9;
    return std::move(record_);
  }

 private:
  void begin() {
    record_.engine = request_.engine->name();
    record_.target = target_.key;
    record_.preset = request_.preset;
    record_.mode = request_.full ? "full" : "quick";
    record_.seed = request_.seed ? *request_.seed : seed_from_system();
    record_.identity.harness = harness_identity(target_);
    record_.identity.fingerprint_class = fingerprint_class(*request_.engine).hash();
  }

  // An Error is the lab's or the target's fault; a failure_ is the candidate's.
  Outcome steps() {
    KL_CHECK(request_.engine->usable());
    KL_CHECK(build());
    plan_ = plan_cases(target_, request_.trainer_shapes, request_.full, request_.largest_whole_case, request_.captured);
    record_.cases_planned = plan_.count();
    record_.identity.case_plan = plan_.hash();
    KL_CHECK(check_strength(target_, plan_, request_.full));
    check_library();
    if (!failure_) start_hosts();
    if (!failure_) KL_CHECK(try_all_cases());
    if (!failure_) check_domain();
    if (!failure_) KL_CHECK(try_later());
    if (!failure_ && (request_.sanitize || request_.full)) sanitize();
    return {};
  }

  Outcome build() {
    const Builder builder(*request_.engine);
    KL_TRY(candidate_, builder.build({request_.kernel, "", {}}));
    record_.kernel_hash = candidate_.source_hash;
    record_.compile = candidate_.report;
    record_.identity.kernel = candidate_.source_hash;
    record_.identity.flags = candidate_.flags_hash;
    KL_TRY(champion_, builder.build({request_.champion, "", {}}));
    record_.identity.baseline = champion_.source_hash;
    KL_TRY(auto loaded, open_oracle(builder, target_.oracle(), target_.key));
    oracle_.emplace(std::move(loaded));
    return {};
  }

  void check_library() {
    const auto broken = candidate_.broken_rule();
    if (!broken) return;
    fail({Status::rejected, broken->rule, broken->proof, {}});
    record_.remedy = broken->remedy + "; docs/harness.md explains the rule";
  }

  void start_hosts() {
    auto host = Host::start(candidate_, target_, worker_limits(*request_.engine));
    if (const auto* fault = std::get_if<Fault>(&host)) return fail(failure_of(*fault, "load"));
    candidate_host_ = std::get<0>(std::move(host));
    const Confinement& limits = candidate_host_.worker->confinement();
    record_.confinement = {{"landlock", limits.landlock},
                           {"seccomp", limits.seccomp},
                           {"no_new_privs", limits.no_new_privs},
                           {"outputs_locked", limits.outputs_locked}};
    if (!limits.relaxed.empty()) record_.confinement["relaxed"] = limits.relaxed;
    // A candidate that is the champion cannot be worse than it.
    if (champion_.source_hash == candidate_.source_hash) return note_champion("is-candidate");
    auto champion = Host::start(champion_, target_, worker_limits(*request_.engine));
    if (const auto* fault = std::get_if<Fault>(&champion))
      return note_champion(fault->rule + ": " + fault->proof);
    champion_host_ = std::get<0>(std::move(champion));
    note_champion("compared");
  }
  void note_champion(const std::string& what) { record_.details["champion"] = what; }

  Outcome try_all_cases() {
    CaseQueue queue(*oracle_, target_, plan_, record_.seed, std::max(2, usable_cores()));
    std::optional<size_t> group;
    while (!queue.done() && !failure_) {
      KL_TRY(const PreparedCase prepared, queue.next());
      const bool entering = group != prepared.group;
      group = prepared.group;
      if (entering) enter_group(prepared);
      if (!failure_) try_one(prepared, entering);
      report(request_.progress,
             {static_cast<double>(record_.cases_run), static_cast<double>(record_.cases_planned),
              "cases", plan_.groups[prepared.group].name()});
    }
    return {};
  }

  void enter_group(const PreparedCase& prepared) {
    const CaseGroup& group = plan_.groups[prepared.group];
    auto entered = candidate_host_.enter_group(prepared.data);
    if (const auto* fault = std::get_if<Fault>(&entered))
      return fail(failure_of(*fault, group.name()));
    if (candidate_host_.declined) note_declined(group, *candidate_host_.declined);
    if (!champion_host_) return;
    auto other = champion_host_->enter_group(prepared.data);
    if (const auto* fault = std::get_if<Fault>(&other)) lose_champion(*fault);
  }

  void note_declined(const CaseGroup& group, const Declined& declined) {
    record_.details["declined"].push_back({{"case", group.name()}, {"why", declined.why}});
    if (group.source == "trainer" || group.source == "captured")
      fail({Status::rejected,
            "declines-trainer-shape",
            fmt::format("{} is outside the kernel's domain ({}), and the preset runs it",
                        group.name(), declined.why),
            {}});
  }

  void try_one(const PreparedCase& prepared, bool first_of_group) {
    const CaseGroup& group = plan_.groups[prepared.group];
    const TrialContext context{&target_, &group, &group.cases[prepared.item]};
    if (candidate_host_.site) {
      // Of a large case one draw is run twice and held against the champion.
      const bool wholly = group.tile_rows == 0 || first_of_group;
      const CaseResult result = try_case(*candidate_host_.site, context, prepared.data,
                                         first_of_group ? kFirstSettle : kSettle, wholly);
      count(result);
      for (const auto& [operation, nodes] : candidate_host_.site->graph_nodes())
        record_.details["graph_nodes"][target_.operations[operation].name] = nodes;
      if (result.failure) return fail(*result.failure);
      if (context.item->strong && wholly) compare(context, prepared.data, result);
      if (failure_) return;
      if (context.item->strong) strong_dtypes_.insert(group.dtype);
    }
    ++record_.cases_run;
  }

  void count(const CaseResult& result) {
    record_.elements_checked += result.elements;
    record_.worst_bound_fraction = std::max(record_.worst_bound_fraction, result.worst_fraction);
    repeatable_ = repeatable_ && result.repeatable;
  }

  void compare(const TrialContext& context, const CaseData& data, const CaseResult& result) {
    if (!champion_host_ || !champion_host_->site) return;
    auto outputs = run_all(*champion_host_->site, data, 0);
    if (const auto* fault = std::get_if<Fault>(&outputs)) return lose_champion(*fault);
    const CaseResult champion = judge_case(context, data, std::get<0>(std::move(outputs)), 0);
    if (champion.failure) record_.details["champion_fails"].push_back(champion.failure->proof);
    if (const auto failure = compare_with_champion(context, data, result, champion)) fail(*failure);
  }

  void lose_champion(const Fault& fault) {
    champion_host_.reset();
    note_champion(fault.rule + ": " + fault.proof);
  }

  // A kernel that declines everything has shown nothing.
  void check_domain() {
    for (const std::string& dtype : target_.dtypes)
      if (!strong_dtypes_.contains(dtype))
        return fail({Status::rejected,
                     "declines-every-case",
                     fmt::format("no strong case for {} is inside the kernel's domain", dtype),
                     {}});
  }

  Outcome try_later() {
    KL_CHECK(later_on(smallest_strong("list"), kLaterRounds));
    const CaseGroup* trainer = smallest_strong("trainer");
    const bool large = trainer != nullptr && trainer->tile_rows > 0;
    if (!failure_) KL_CHECK(later_on(trainer, large ? kLargeRounds : kTrainerRounds));
    return {};
  }

  const CaseGroup* smallest_strong(std::string_view source) const {
    const CaseGroup* smallest = nullptr;
    for (const CaseGroup& group : plan_.groups)
      if (group.source == source && has_strong(group) &&
          (smallest == nullptr || volume(group) < volume(*smallest)))
        smallest = &group;
    return smallest;
  }

  Outcome later_on(const CaseGroup* group, int rounds) {
    if (group == nullptr) return {};
    KL_CHECK(take_report(try_later_calls(*candidate_host_.worker, candidate_host_.arm, *oracle_,
                                         target_, *group, record_.seed, rounds)));
    if (!failure_)
      KL_CHECK(take_report(try_interleaved(*candidate_host_.worker, candidate_host_.arm, *oracle_,
                                           target_, *group, record_.seed)));
    return {};
  }

  Outcome take_report(const LaterCallsReport& later) {
    if (later.lab_error) return *later.lab_error;
    record_.elements_checked += later.elements;
    later_calls_ += later.calls;
    growth_bytes_ = std::max(growth_bytes_, later.resident_growth_bytes);
    record_.details["later_calls"] = {{"calls", later_calls_},
                                      {"resident_growth_bytes", growth_bytes_}};
    if (later.failure) fail(*later.failure);
    return {};
  }

  void sanitize() {
    const SanitizeReport report =
        run_sanitizers(*request_.engine, target_, plan_, request_.kernel, record_.seed);
    record_.details["sanitize"] = to_json(report);
    if (report.status == Status::rejected) fail({Status::rejected, report.rule, report.proof, {}});
  }

  void fail(CaseFailure failure) {
    failure_ = true;
    record_.status = failure.status;
    record_.rule = std::move(failure.rule);
    record_.proof = std::move(failure.proof);
    record_.failing = std::move(failure.failing);
    record_.reason = record_.rule + ": " + record_.proof;
    record_.remedy =
        failure.status == Status::mismatch
            ? "correct the kernel, then verify again with --seed " + std::to_string(record_.seed)
            : "correct the kernel: docs/harness.md explains the rule";
    if (candidate_host_.worker) record_.details["printed"] = printed();
  }
  std::string printed() const {
    constexpr size_t kShown = 4000;
    return candidate_host_.worker->printed().substr(0, kShown);
  }

  void end_with(const Error& error) {
    record_.status = error.status;
    record_.reason = error.what;
    record_.remedy = error.remedy;
    if (error.status == Status::build_failed) record_.rule = "build-failed";
  }

  void conclude() {
    record_.bitwise_repeatable = repeatable_;
    record_.details["bound"] = {
        {"c", target_.bound_c},
        {"k", target_.champion_k},
        {"maths", std::string(to_string(target_.maths))},
        {"u_accumulate", accumulator_roundoff(target_.maths, {kDLFloat, 32, 1})}};
    if (record_.cases_run == record_.cases_planned && record_.cases_run > 0) {
      record_.status = Status::ok;
      return;
    }
    record_.status = Status::error;
    record_.reason =
        fmt::format("{} of {} planned cases ran", record_.cases_run, record_.cases_planned);
    record_.remedy = "verify again; report it if it stays";
  }

  const VerifyRequest& request_;
  Target target_;
  VerifyRecord record_;
  BuiltLibrary candidate_, champion_;
  std::optional<OracleLibrary> oracle_;
  CasePlan plan_;
  Host candidate_host_;
  std::optional<Host> champion_host_;
  std::set<std::string> strong_dtypes_;
  bool failure_ = false;
  bool repeatable_ = true;
  int64_t later_calls_ = 0;
  int64_t growth_bytes_ = 0;
};

}  // namespace

VerifyRecord verify(const VerifyRequest& request) { return Verification(request).run(); }

}  // namespace kl
