#include <lab/integration/trainer_check.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/integration/replay_gate.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace kl {
namespace {

constexpr int64_t kWarmup = 2, kTimed = 4;
// Two runs from one seed begin with the same weights and tokens: their first losses differ by the
// order of sums at most.
constexpr double kSameLoss = 1e-3;
constexpr const char* kOk = "ok";
constexpr const char* kWrong = "wrong";
constexpr const char* kAbsent = "absent";
constexpr const char* kGateNotRun = "a faster candidate stays inconclusive (gates-not-run)";

std::vector<double> losses(const TrainerRun& run) {
  std::vector<double> all;
  for (const TrainerStep& step : run.steps) all.push_back(step.loss);
  return all;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

class ProtocolTrial {
 public:
  ProtocolTrial(const TrainerCheckRequest& request, TrainerCheckRecord& record)
      : request_(request), record_(record), trainer_(request.program, request.arguments) {}

  Outcome everything() {
    KL_TRY(const TrainerPreset preset, chosen_preset());
    if (preset.name.empty()) return {};
    record_.preset = plan_.preset = preset.name;
    if (!seams() || !libraries() || !whole_run()) return {};
    KL_TRY(TemporaryFolder scratch, TemporaryFolder::create("kernel-lab-trainer-check"));
    scratch_ = std::move(scratch);
    memory();
    same_seed();
    other_seed();
    wrong_library();
    perturbed();
    KL_CHECK(replayed());
    recorded();
    if (preset.turns.value_or(false)) turns();
    else add("turns", kAbsent, "its preset says that two runs do not take turns", "integration-ab runs the legs one after the other");
    return {};
  }

 private:
  bool add(const char* name, const char* verdict, std::string found, std::string costs = {}) {
    record_.checks.push_back({name, verdict, std::move(found), std::move(costs)});
    return verdict == std::string_view(kOk);
  }

  // Empty: the answer is wrong, and said to be.
  Result<TrainerPreset> chosen_preset() {
    say("asks for its presets");
    const auto list = trainer_.presets();
    if (!list.ok() && list.error().status == Status::missing_tool) return list.error();
    if (!list.ok()) {
      add("presets", kWrong, list.error().what);
      return TrainerPreset{};
    }
    std::set<std::string> names;
    for (const TrainerPreset& preset : *list)
      if (preset.name.empty() || !names.insert(preset.name).second) {
        add("presets", kWrong, fmt::format("the name \"{}\" is empty or there twice", preset.name));
        return TrainerPreset{};
      }
    TrainerPreset chosen;
    for (const TrainerPreset& preset : *list)
      if (request_.preset.empty() && (!preset.device || *preset.device == request_.engine->name())) {
        chosen = presets_by_strength(*list, request_.engine->name(), preset.family).front();
        break;
      }
    if (!request_.preset.empty()) {
      KL_TRY(chosen, trainer_.preset(request_.preset));
    }
    if (chosen.name.empty())
      add("presets", kWrong, fmt::format("{} presets, none for engine {}", list->size(), request_.engine->name()));
    else
      add("presets", kOk, fmt::format("{}; {} is checked", list->size(), chosen.name));
    return chosen;
  }

  bool seams() {
    say("asks for its seams");
    auto listed = trainer_.seams(plan_.preset);
    if (!listed.ok()) return add("seams", kWrong, listed.error().what);
    for (TrainerSeam& seam : *listed)
      if (seam.on_path()) seams_.push_back(std::move(seam));
    if (seams_.empty()) return add("seams", kWrong, "its answer has no seam on the path: there is nothing to put a kernel into");
    for (const TrainerSeam& seam : seams_)
      if (seam.shapes.empty() || seam.calls_per_step().empty())
        return add("seams", kWrong, fmt::format("seam {} has no shapes, or no calls_per_step", seam.seam));
    return add("seams", kOk, fmt::format("{} on the path", seams_.size()));
  }

  bool libraries() {
    const Builder builder = request_.library_cache.empty() ? Builder(*request_.engine) : Builder(*request_.engine, request_.library_cache);
    const auto built = champion_libraries(*request_.engine, builder, *request_.catalogue, seams_);
    if (!built.ok()) return add("targets", kWrong, built.error().what);
    plan_.libraries = *built;
    return add("targets", kOk, "each seam's target has a kernel");
  }

  std::optional<TrainerRun> run(const TrainerPlan& plan, std::string& why) {
    auto ran = trainer_.run(plan, request_.timeout_seconds);
    if (!ran.ok()) {
      why = ran.error().what;
      return std::nullopt;
    }
    why = ran->why_incomplete();
    return std::move(*ran);
  }

  std::string fault_of(const TrainerRun& run, int64_t steps) const {
    if (!run.start) return "no `start` event";
    for (const auto& [seam, library] : plan_.libraries) {
      const auto loaded = run.start->libraries.find(seam);
      if (loaded == run.start->libraries.end()) return fmt::format("`start` does not say what it loaded into seam {}", seam);
      if (loaded->second.library_hash != library.library_hash) return fmt::format("`start` names another library in seam {} than the plan's", seam);
    }
    if (static_cast<int64_t>(run.steps.size()) != steps) return fmt::format("{} `step` events for {} steps", run.steps.size(), steps);
    for (size_t i = 0; i < run.steps.size(); ++i) {
      const TrainerStep& step = run.steps[i];
      if (step.index != static_cast<int64_t>(i)) return fmt::format("step {} has index {}", i, step.index);
      if (!(step.ns > 0)) return fmt::format("step {} has no positive ns", i);
      if (!std::isfinite(step.loss)) return fmt::format("step {} has no finite loss", i);
    }
    for (const TrainerSeam& seam : seams_)
      for (const auto& [operation, calls] : seam.calls_per_step()) {
        const auto counted = run.seam_calls.find(seam.seam);
        const int64_t found = counted != run.seam_calls.end() && counted->second.contains(operation) ? counted->second.at(operation) : 0;
        if (found != calls * steps)
          return fmt::format("`finish` counts {} calls of {}/{}: {} steps of {} make {}", found, seam.seam, operation, steps, calls, calls * steps);
      }
    return {};
  }

  bool whole_run() {
    say("runs a few steps");
    plan_.warmup_steps = kWarmup;
    plan_.steps = kTimed;
    std::string fault;
    auto ran = run(plan_, fault);
    if (ran && fault.empty()) fault = fault_of(*ran, plan_.all_steps());
    for (size_t i = 0; ran && fault.empty() && i < ran->steps.size(); ++i)
      if (ran->steps[i].warmup != (static_cast<int64_t>(i) < kWarmup)) fault = fmt::format("step {} does not say rightly whether it is warm-up", i);
    if (!fault.empty()) return add("run", kWrong, fault);
    first_ = std::move(*ran);
    return add("run", kOk, fmt::format("{} steps, every call counted", kWarmup + kTimed));
  }

  void memory() {
    if (!first_.memory_peak_bytes) return void(add("memory", kAbsent, "no `memory` event", kGateNotRun));
    if (*first_.memory_peak_bytes <= 0) return void(add("memory", kWrong, fmt::format("peak_bytes is {}", *first_.memory_peak_bytes)));
    add("memory", kOk, fmt::format("{:.1f} MB at its peak", static_cast<double>(*first_.memory_peak_bytes) * 1e-6));
  }

  void same_seed() {
    say("runs them again");
    std::string fault;
    const auto again = run(plan_, fault);
    if (!fault.empty()) return void(add("same-seed", kWrong, "the second run " + fault));
    const double first = std::fabs(again->steps.front().loss - first_.steps.front().loss) / std::fabs(first_.steps.front().loss);
    if (!(first <= kSameLoss))
      return void(add("same-seed", kWrong, fmt::format("two runs of one seed begin with losses {:.6g} and {:.6g}", first_.steps.front().loss,
                                                       again->steps.front().loss)));
    repeat_difference_ = largest_difference(losses(*again), losses(first_));
    add("same-seed", kOk, repeat_difference_ == 0 ? "the same losses, to the last bit" : fmt::format("losses within {:.1e}", repeat_difference_));
  }

  void other_seed() {
    say("runs another seed");
    TrainerPlan plan = plan_;
    plan.seed += 1;
    std::string fault;
    const auto other = run(plan, fault);
    if (!fault.empty()) return void(add("seed", kWrong, "a run of another seed " + fault));
    if (largest_difference(losses(*other), losses(first_)) <= repeat_difference_)
      return void(add("seed", kWrong, "another seed gives the same losses: the plan's seed is not used"));
    add("seed", kOk, "another seed trains on other weights or tokens");
  }

  void wrong_library() {
    say("gives it a library that is not the plan's");
    TrainerPlan plan = plan_;
    plan.libraries.begin()->second.library_hash = std::string(64, '0');
    std::string fault;
    const auto ran = run(plan, fault);
    if (fault.empty() || (ran && !ran->steps.empty()))
      return void(add("wrong-library", kWrong, fmt::format("seam {} holds another library than its library_hash says, and the run began all the same",
                                                           plan.libraries.begin()->first)));
    if (!ran || !ran->error) return void(add("wrong-library", kWrong, "it stopped without an `error` event: " + fault));
    add("wrong-library", kOk, "stopped before the first step: " + ran->error->what);
  }

  void perturbed() {
    say("perturbs a seam");
    TrainerPlan plan = plan_;
    plan.perturb = PerturbRequest{seams_.front().seam, 1};
    std::string fault;
    const auto ran = run(plan, fault);
    if (!fault.empty()) return void(add("perturb", kAbsent, "the run " + fault, kGateNotRun));
    const double moved = largest_difference(losses(*ran), losses(first_));
    if (moved <= repeat_difference_) return void(add("perturb", kAbsent, "the losses stay as they were", kGateNotRun));
    add("perturb", kOk, fmt::format("losses move by up to {:.1e}", moved));
  }

  Outcome replayed() {
    say("replays batches");
    TrainerPlan plan = plan_;
    plan.snapshots = SnapshotRequest{scratch_->path(), {0, kWarmup + kTimed - 1}};
    std::string fault;
    run(plan, fault);
    if (!fault.empty()) {
      add("snapshots", kAbsent, "the run " + fault, kGateNotRun);
      return {};
    }
    ReplayRequest request{{}, {0, 1}, scratch_->path()};
    std::error_code code;
    for (const int64_t step : plan.snapshots->steps) {
      request.weights.push_back(snapshot_file(scratch_->path(), step));
      if (!fs::exists(request.weights.back(), code)) {
        add("snapshots", kAbsent, fmt::format("no {}", request.weights.back().filename().string()), kGateNotRun);
        return {};
      }
    }
    add("snapshots", kOk, "weights before the steps asked for");
    plan.snapshots.reset();
    plan.warmup_steps = plan.steps = 0;
    for (const char* name : {"first", "second"}) {
      request.gradients = scratch_->path() / name;
      KL_CHECK(make_directories(request.gradients));
      plan.replay = request;
      const auto ran = run(plan, fault);
      if (!fault.empty()) {
        add("replay", kAbsent, "the replay " + fault, kGateNotRun);
        return {};
      }
      if (ran->replays.size() != request.weights.size() * request.batches.size()) {
        add("replay", kWrong, fmt::format("{} `replay` events for {} files and {} batches", ran->replays.size(), request.weights.size(), request.batches.size()));
        return {};
      }
    }
    const auto same = compare_gradients(gradient_file(scratch_->path() / "first", 0, 0), gradient_file(scratch_->path() / "second", 0, 0));
    if (!same.ok())
      add("replay", kWrong, same.error().what);
    else if (!(same->cosine > 1 - kSameLoss))
      add("replay", kWrong, fmt::format("the gradients of one batch at the same weights differ: cosine {:.6f}", same->cosine));
    else
      add("replay", kOk, fmt::format("the same gradients again, cosine {:.9f}", same->cosine));
    return {};
  }

  void recorded() {
    say("asks for the ranges of two steps");
    TrainerPlan plan = plan_;
    plan.ranges = RangeRequest{1, 2, 1};
    std::string fault;
    const auto ran = run(plan, fault);
    constexpr const char* kNoTrace = "capture has no trace of it";
    const bool refused = ran && ran->error && ran->steps.empty();
    if (refused) return void(add("ranges", kAbsent, ran->error->what, kNoTrace));
    if (!fault.empty()) return void(add("ranges", kWrong, "the run " + fault));
    if (ran->ranges.empty()) return void(add("ranges", kAbsent, "no `ranges` events", kNoTrace));
    int64_t dropped = 0;
    size_t written = 0;
    for (const TrainerRanges& step : ran->ranges) {
      dropped += step.dropped;
      written += step.ranges.size();
    }
    if (ran->ranges.size() != 2 || written == 0 || dropped > 0)
      return void(add("ranges", kWrong, fmt::format("{} `ranges` events for two steps, {} ranges, {} dropped or outside their step", ran->ranges.size(), written, dropped)));
    add("ranges", kOk, fmt::format("{} ranges in two steps", written));
  }

  void turns() {
    say("cuts the steps into turns");
    TrainerPlan plan = plan_;
    plan.turns = TurnPlan{kTimed / 2, 1, {}};
    std::string fault;
    const auto ran = run(plan, fault);
    if (fault.empty()) fault = fault_of(*ran, plan.all_steps());
    int64_t timed = 0;
    if (fault.empty())
      for (const TrainerStep& step : ran->steps) timed += step.warmup ? 0 : 1;
    if (fault.empty() && timed != kTimed) fault = fmt::format("{} timed steps of {}: settling steps must say that they are warm-up", timed, kTimed);
    if (!fault.empty()) return void(add("turns", kWrong, fault));
    add("turns", kOk, "settling steps are told from timed ones");
  }

  void say(const char* what) const {
    constexpr double kMost = 13;
    report(request_.progress, {static_cast<double>(record_.checks.size()), kMost, "checks", what});
  }

  const TrainerCheckRequest& request_;
  TrainerCheckRecord& record_;
  TrainerClient trainer_;
  TrainerPlan plan_;
  std::vector<TrainerSeam> seams_;
  TrainerRun first_;
  double repeat_difference_ = 0;
  std::optional<TemporaryFolder> scratch_;
};

}  // namespace

Result<TrainerCheckRecord> check_trainer(const TrainerCheckRequest& request) {
  const int64_t begin = monotonic_ns();
  auto record = new_record<TrainerCheckRecord>();
  record.engine = request.engine->name();
  record.program = request.program.string();
  record.arguments = request.arguments;
  KL_CHECK(ProtocolTrial(request, record).everything());
  record.wall_seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  record.status = Status::ok;
  for (const ProtocolCheck& check : record.checks)
    if (check.verdict == kWrong) {
      record.status = check.name == "presets" ? Status::needs_integration_adapter : Status::rejected;
      record.reason = fmt::format("{}: {}", check.name, check.found);
      record.remedy = "docs/trainer-protocol.md says what it must do";
      break;
    }
  return record;
}

}  // namespace kl
