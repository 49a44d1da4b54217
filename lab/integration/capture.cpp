#include <lab/integration/capture.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <lab/integration/range_trace.hpp>
#include <lab/integration/seam_libraries.hpp>
#include <lab/stats/quantile.hpp>
#include <lab/stats/rank_interval.hpp>
#include <lab/trace/store.hpp>
#include <lab/trace/summary.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kl {
namespace {

constexpr int64_t kWarmupSteps = 5;
constexpr int64_t kProbeSteps = 5;
constexpr int64_t kQuickSteps = 8;
constexpr int64_t kLeastSteps = 4;
constexpr int64_t kMostSteps = 5000;
// Every captured step lies between two that are not, so that its cost is seen whatever the machine's speed does; and
// the step behind it, which starts with the caches that writing the events left, is neither.
constexpr int64_t kEvery = 3;
constexpr double kTimeoutSeconds = 3600;

fs::path with_suffix(const fs::path& prefix, const char* suffix) { return prefix.string() + suffix; }
// Where a trainer writes tensors, so that those of an earlier capture stay until these are whole.
fs::path part_folder(const fs::path& prefix) { return with_suffix(prefix, ".tensors.part"); }

// The tensors alone: files of other names stay, and the folder with them.
void forget_tensors(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  for (const fs::path& file : files) fs::remove(file, code);
  fs::remove(folder, code);
}

// This capture's in the place of an earlier one's under the same prefix; none, if it has none.
Outcome replace_tensors(const fs::path& prefix) {
  const fs::path from = part_folder(prefix), to = tensor_folder(prefix);
  forget_tensors(to);
  std::error_code code;
  if (!fs::is_directory(from, code)) return {};
  KL_CHECK(make_directories(to));
  for (const auto& entry : fs::directory_iterator(from, code)) {
    fs::rename(entry.path(), to / entry.path().filename(), code);
    if (code) return make_error(Status::error, fmt::format("cannot move {} to {}: {}", entry.path().string(), to.string(), code.message()), "free the folder's name");
  }
  fs::remove(from, code);
  return {};
}

class Capture {
 public:
  Capture(const CaptureRequest& request, CaptureRecord& record)
      : request_(request), record_(record),
        trainer_(request.trainer.empty() ? TrainerClient::builtin() : request.trainer, request.trainer_arguments) {}

  Outcome run() {
    KL_CHECK(tool());
    KL_CHECK(prepare());
    KL_CHECK(choose_steps());
    return trace();
  }

 private:
  Outcome tool() {
    KL_CHECK(request_.engine->usable());
    const std::string_view engine = request_.engine->name();
    if (request_.tool == "nsys")
      return make_error(Status::missing_tool,
                        engine == "cpu" ? "nsys records what a GPU does; engine cpu has none"
                                        : "captures with nsys are not built",
                        engine == "cpu" ? "leave --tool out: the trainer's own ranges are the trace"
                                        : "run `nsys profile` and `nsys export --type sqlite` yourself");
    if (engine != "cpu")
      return make_error(Status::missing_tool, fmt::format("engine {} needs the CUPTI collector, which is not built", engine),
                        "capture on --engine cpu, or run `nsys profile` and `nsys export --type sqlite` yourself");
    return {};
  }

  Outcome prepare() {
    std::string seam;
    if (request_.target != nullptr) {
      seam = request_.target->seam;
      if (seam.empty()) return needs_adapter(fmt::format("target {} fills no seam of a trainer", request_.target->key));
    }
    KL_TRY(const auto preset, trainer_.preset(request_.preset));
    KL_TRY(const TrainerPath path, trainer_.path(request_.preset, request_.overrides, seam));
    if (!seam.empty() && path.find(seam) == nullptr)
      return needs_adapter(fmt::format("preset {} does not run seam {}", request_.preset, seam));
    record_.opened_by = path.opened_by;
    const Builder builder = request_.library_cache.empty() ? Builder(*request_.engine)
                                                           : Builder(*request_.engine, request_.library_cache);
    KL_TRY(plan_.libraries, champion_libraries(*request_.engine, builder, *request_.catalogue, path.seams));
    if (!seam.empty()) {
      KL_TRY(const auto candidate, builder.build({.source = request_.candidate}));
      plan_.libraries[seam] = seam_library(candidate);
      record_.seam = seam;
      record_.identity.kernel = candidate.source_hash;
      record_.identity.flags = candidate.flags_hash;
    }
    for (const auto& [name, library] : plan_.libraries)
      record_.libraries[name] = {library.path.string(), library.source_hash, library.library_hash};
    record_.identity.seams = seams_hash(plan_.libraries, seam);
    KL_TRY(record_.identity.trainer, trainer_.identity(preset));
    // Another operating point than the preset's is another trainer.
    if (!request_.overrides.empty())
      record_.identity.trainer = sha256_fields({record_.identity.trainer, dump_line(request_.overrides)});
    plan_.preset = request_.preset;
    plan_.overrides = request_.overrides;
    for (const auto& [field, value] : path.opened_by) plan_.overrides[field] = value;
    plan_.seed = request_.seed;
    plan_.warmup_steps = kWarmupSteps;
    record_.warmup_steps = kWarmupSteps;
    record_.command = {trainer_.program().string()};
    record_.command.insert(record_.command.end(), request_.trainer_arguments.begin(), request_.trainer_arguments.end());
    record_.command.insert(record_.command.end(), {"--plan", "plan.json"});
    return {};
  }

  static Error needs_adapter(std::string what) {
    return make_error(Status::needs_integration_adapter, std::move(what),
                      "bench it alone, or use a preset or trainer that runs its seam");
  }

  // As many as the window holds at the step time of a short run.
  Outcome choose_steps() {
    record_.steps = request_.steps > 0 ? request_.steps : kQuickSteps;
    if (request_.steps > 0 || request_.quick) return {};
    TrainerPlan probe = plan_;
    probe.steps = kProbeSteps;
    report(request_.progress, {0, 0, "", fmt::format("how long a step of {} takes", request_.preset)});
    KL_TRY(const TrainerRun run, run_trainer(probe));
    std::vector<double> ns;
    for (const auto& step : run.steps)
      if (!step.warmup) ns.push_back(step.ns);
    const double step_seconds = ns.empty() ? 0 : stats::median(ns) * 1e-9;
    if (!(step_seconds > 0)) return failed("the trainer timed no step of a short run", run);
    record_.steps = std::clamp(static_cast<int64_t>(request_.window_seconds / (step_seconds * kEvery)), kLeastSteps, kMostSteps);
    return {};
  }

  Outcome trace() {
    plan_.steps = 1 + kEvery * record_.steps;
    plan_.ranges = RangeRequest{1, record_.steps, kEvery};
    if (request_.tensors) {
      // A step of its own, so that no captured step has one beside it that copied tensors.
      plan_.tensors = TensorRequest{fs::absolute(part_folder(request_.output)), plan_.steps};
      ++plan_.steps;
    }
    plan_.skip_eval = !request_.include_eval;
    record_.every = kEvery;
    record_.first_step = kWarmupSteps + 1;
    record_.plan = plan_json(plan_, "events.jsonl");
    record_.plan.erase("libraries");
    report(request_.progress, {0, 0, "", fmt::format("{} steps of {}, one in {} captured", plan_.steps, request_.preset, kEvery)});
    KL_TRY(const TrainerRun run, run_trainer(plan_));
    if (run.ranges.empty())
      return make_error(Status::capture_unavailable, fmt::format("{} wrote no `ranges` events", trainer_.program().string()),
                        "docs/trainer-protocol.md says what a trainer writes that can be captured");
    if (static_cast<int64_t>(run.ranges.size()) != record_.steps)
      return failed(fmt::format("{} of {} planned steps came with ranges", run.ranges.size(), record_.steps), run);
    if (run.start)
      record_.trainer_start = {{"config", run.start->config}, {"fingerprint", run.start->fingerprint}, {"threads", run.start->threads}};
    if (!run.evals.empty())
      record_.evaluation = {{"step", run.evals.back().step}, {"val_bpb", run.evals.back().val_bpb}, {"val_loss", run.evals.back().val_loss}};
    record_.overhead = overhead_of(run);
    if (request_.tensors) KL_CHECK(list_tensors(run));
    return write(run);
  }

  Outcome list_tensors(const TrainerRun& run) {
    if (run.tensor_files.empty())
      return make_error(Status::capture_unavailable, fmt::format("{} wrote no `tensors` event", trainer_.program().string()),
                        "leave --tensors out; docs/trainer-protocol.md says what a trainer writes");
    for (const std::string& file : run.tensor_files) {
      KL_TRY(const std::string hash, sha256_file(file));
      std::error_code code;
      const fs::path kept = tensor_folder(request_.output) / fs::path(file).filename();
      record_.tensor_files.push_back({kept.string(), static_cast<int64_t>(fs::file_size(file, code)), hash});
    }
    return {};
  }

  // What ends early is a failed capture; what it says is kept.
  Result<TrainerRun> run_trainer(const TrainerPlan& plan) {
    auto run = trainer_.run(plan, kTimeoutSeconds);
    if (!run.ok()) return run.error();
    record_.return_codes.push_back(run->signal != 0 ? -run->signal : run->exit_code);
    if (!run->complete()) return failed(fmt::format("the trainer {}", run->why_incomplete()), *run);
    return run;
  }
  static Error failed(std::string what, const TrainerRun& run) {
    const bool said = run.error && !run.error->remedy.empty();
    return make_error(Status::capture_failed, std::move(what), said ? run.error->remedy : "run the trainer by hand with this plan");
  }

  static stats::Interval overhead_of(const TrainerRun& run) {
    std::vector<double> ns;
    std::vector<size_t> captured;
    size_t next = 0;
    for (const auto& step : run.steps) {
      if (step.warmup) continue;
      if (next < run.ranges.size() && run.ranges[next].step == step.index) {
        captured.push_back(ns.size());
        ++next;
      }
      ns.push_back(step.ns);
    }
    return capture_overhead(ns, captured, kEvery);
  }

  Outcome write(const TrainerRun& run) {
    trace::TraceModel model = range_trace(run, record_.device.device.empty() ? "cpu" : record_.device.device);
    model.metadata = {{"KERNEL_LAB_CREATED_AT", record_.created_at}, {"KERNEL_LAB_ENGINE", record_.engine},
                      {"KERNEL_LAB_PRESET", record_.preset},         {"KERNEL_LAB_SEAM", record_.seam},
                      {"KERNEL_LAB_STEPS", std::to_string(record_.steps)}};
    const trace::Summary summary = trace::summarise(model);
    record_.window_ns = summary.window_ns;
    record_.covered_share = summary.covered_share;
    record_.ranges = static_cast<int64_t>(model.activities.size());
    for (const auto& step : run.ranges) record_.dropped += step.dropped;
    const fs::path file = trace_file(request_.output);
    KL_CHECK(trace::write_trace(model, file));
    std::error_code code;
    KL_TRY(const std::string hash, sha256_file(file));
    record_.report_files.push_back({file.string(), static_cast<int64_t>(fs::file_size(file, code)), hash});
    return {};
  }

  const CaptureRequest& request_;
  CaptureRecord& record_;
  TrainerClient trainer_;
  TrainerPlan plan_;
};

// A prefix that cannot be written is found before the trainer runs.
Outcome check_output(const fs::path& prefix) {
  if (prefix.filename().empty() || fs::is_directory(trace_file(prefix)) || fs::is_directory(metadata_file(prefix)))
    return make_error(Status::usage, fmt::format("--output {} names no files", prefix.string()), "give a prefix: --output results/traces/smoke");
  const fs::path probe = with_suffix(prefix, ".probe");
  KL_CHECK(write_file_atomic(probe, "x"));
  std::error_code code;
  fs::remove(probe, code);
  return {};
}

}  // namespace

fs::path trace_file(const fs::path& prefix) { return with_suffix(prefix, ".sqlite"); }
fs::path tensor_folder(const fs::path& prefix) { return with_suffix(prefix, ".tensors"); }
fs::path metadata_file(const fs::path& prefix) { return with_suffix(prefix, ".metadata.json"); }

stats::Interval capture_overhead(const std::vector<double>& step_ns, const std::vector<size_t>& captured, int64_t every) {
  const auto distance = static_cast<size_t>(every - 1);  // to the step before the next captured one
  const double weight = 1 / static_cast<double>(every);  // of that: the nearer neighbour says more
  std::vector<double> ratios;
  for (const size_t i : captured)
    if (i > 0 && i + distance < step_ns.size())
      ratios.push_back(std::log(step_ns[i]) - (1 - weight) * std::log(step_ns[i - 1]) - weight * std::log(step_ns[i + distance]));
  return stats::median_interval(ratios, 0.95);
}

Result<CaptureRecord> capture(const CaptureRequest& request) {
  const int64_t begin = monotonic_ns();
  KL_CHECK(check_output(request.output));
  auto record = new_record<CaptureRecord>();
  record.engine = request.engine->name();
  record.preset = request.filed_under.empty() ? request.preset : request.filed_under;
  record.workspace = request.workspace;
  if (request.target != nullptr) record.target = request.target->key;
  record.prefix = request.output.string();
  record.tool = request.tool;
  record.tool_version = request.tool == "own" ? std::string(kLabVersion) : "";
  record.device = fingerprint_class(*request.engine);
  record.identity.fingerprint_class = record.device.hash();
  record.bench = request.bench;
  forget_tensors(part_folder(request.output));
  Outcome outcome = Capture(request, record).run();
  if (outcome.ok()) outcome = replace_tensors(request.output);
  record.status = Status::ok;
  if (!outcome.ok()) {
    // Whatever the trainer did wrong, the capture failed.
    const Status why = outcome.error().status;
    record.status = why == Status::execution_failed || why == Status::timed_out ? Status::capture_failed : why;
    record.reason = record.failure_reason = outcome.error().what;
    record.remedy = outcome.error().remedy;
  }
  record.wall_seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  const Outcome written = write_file_atomic(metadata_file(request.output), dump_pretty(to_json(record)) + "\n");
  if (!outcome.ok() || !written.ok()) {
    // A trace of an earlier capture under this name would pass for this one's, one without metadata for anything.
    std::error_code code;
    fs::remove(trace_file(request.output), code);
    forget_tensors(tensor_folder(request.output));
    forget_tensors(part_folder(request.output));
  }
  if (!written.ok()) return written.error();
  return record;
}

}  // namespace kl
