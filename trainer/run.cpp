#include <trainer/run.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/safetensors.hpp>
#include <lab/engine/fingerprint_class.hpp>
#include <trainer/checkpoint.hpp>
#include <trainer/range_log.hpp>
#include <trainer/tensor_log.hpp>
#include <trainer/turns.hpp>

#include <algorithm>
#include <cmath>

namespace kl::trainer {
namespace {

Json fingerprint(Session& session) {
  const auto engine = find_engine(session.config().device);
  FingerprintClass fingerprint = engine.ok() ? fingerprint_class(**engine) : FingerprintClass{};
  fingerprint.libraries = session.stepper().maths_library();
  return to_json(fingerprint);
}

Json by_seam(const std::map<std::string, SeamCounts>& counts, bool with_time) {
  Json json = Json::object();
  for (const auto& [seam, c] : counts) {
    Json calls = Json::object();
    size_t operation = 0;
    for (const SeamOperation& named : contract_of(seam).all())
      calls[std::string(named.name)] = c.calls[operation++];
    json[seam] = {{"calls", calls}};
    if (with_time) json[seam]["ns"] = c.ns;
    if (c.graph_nodes > 0) json[seam]["graph_nodes"] = c.graph_nodes;
  }
  return json;
}

Outcome write_start(Session& session, const EventStream& events) {
  Json libraries = Json::object();
  for (const auto& [seam, file] : session.stepper().files()) libraries[seam] = to_json(file);
  DatasetFacts facts = session.dataset().facts;
  facts.piece_bytes.clear();
  return events.write("start", {{"config", to_json(session.config())},
                                {"fingerprint", fingerprint(session)},
                                {"libraries", libraries},
                                {"parameters", session.layout().size()},
                                {"tokens_per_step", session.config().tokens_per_step()},
                                {"flops_per_token", session.config().flops_per_token()},
                                {"threads", session.stepper().threads()},
                                {"data", to_json(facts)}});
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Outcome write_step(const Session& session, const StepResult& step, bool warmup, const EventStream& events) {
  return events.write("step", {{"index", step.index},
                               {"warmup", warmup},
                               {"ns", step.ns},
                               {"device_ns", step.device_ns},
                               {"tokens", session.config().tokens_per_step()},
                               {"loss", number_or_null(step.loss)},
                               {"grad_norm", number_or_null(step.grad_norm)},
                               {"seams", by_seam(step.seams, true)}});
}

// Names once a step; times from the step's begin.
Outcome write_ranges(const StepResult& step, const RangeLog& log, const EventStream& events) {
  std::map<std::string, size_t> ids;
  Json names = Json::array(), ranges = Json::array();
  for (const StepRange& range : log.ranges()) {
    const auto [id, fresh] = ids.try_emplace(name_of(range), names.size());
    if (fresh) names.push_back(id->first);
    ranges.push_back({id->second, range.begin_ns - step.begin_ns, range.end_ns - range.begin_ns});
  }
  return events.write("ranges", {{"step", step.index},
                                 {"begin_ns", step.begin_ns},
                                 {"end_ns", step.end_ns},
                                 {"names", std::move(names)},
                                 {"ranges", std::move(ranges)},
                                 {"dropped", log.dropped()}});
}

Result<StepResult> recorded_step(Session& session, double progress, RangeLog* log, TensorLog* tensors) {
  const Recording recording(log);
  const TensorRecording tensor_recording(tensors);
  return session.step(progress);
}

Outcome write_tensors(const StepResult& step, TensorLog& log, const fs::path& folder, const EventStream& events) {
  KL_TRY(const std::vector<fs::path> files, log.write(folder));
  Json names = Json::array();
  for (const fs::path& file : files) names.push_back(file.string());
  return events.write("tensors", {{"step", step.index}, {"files", std::move(names)}});
}

Outcome save_weights(Session& session, const fs::path& file) {
  KL_TRY(const std::span<float> weights, session.stepper().weights());
  return write_safetensors(file, named_tensors(session.layout(), weights));
}

Outcome load_weights(Session& session, const fs::path& file) {
  KL_TRY(const std::span<float> weights, session.stepper().weights());
  KL_TRY(const Metadata unused, read_safetensors(file, named_tensors(session.layout(), weights)));
  return session.stepper().weights_changed();
}

Outcome keep_snapshot(Session& session, const std::optional<Snapshots>& wanted, int64_t step) {
  if (!wanted || std::find(wanted->steps.begin(), wanted->steps.end(), step) == wanted->steps.end())
    return {};
  KL_CHECK(make_directories(wanted->folder));
  return save_weights(session, fs::path(wanted->folder) / ("step-" + std::to_string(step) + ".safetensors"));
}

// Checkpoints of a run: while it goes on a failure is a warning, at its end an error.
class Checkpoints {
 public:
  Checkpoints(Session& session, const RunOptions& options, const EventStream& events)
      : session_(session), options_(options), events_(events) {}

  Outcome while_running(double elapsed) {
    const int64_t every = options_.checkpoint_every;
    if (options_.checkpoint.empty() || every <= 0 || session_.steps_done() % every != 0) return {};
    if (const Outcome written = at_the_end(elapsed); !written.ok()) {
      if (options_.on_warning) options_.on_warning(written.error());
      return events_.write("warning", {{"what", written.error().what}, {"remedy", written.error().remedy}});
    }
    return {};
  }
  Outcome at_the_end(double elapsed) {
    if (options_.checkpoint.empty()) return {};
    const RunPosition position{session_.steps_done(), elapsed, options_.seconds > 0 ? 0 : options_.steps,
                               options_.seconds};
    KL_CHECK(write_checkpoint(session_, position, options_.checkpoint));
    return events_.write("checkpoint", {{"step", position.step}, {"file", options_.checkpoint}});
  }

 private:
  Session& session_;
  const RunOptions& options_;
  const EventStream& events_;
};

Result<RunSummary> train(Session& session, const RunOptions& options, const EventStream& events) {
  if (options.ranges && session.config().device != "cpu")
    return make_error(Status::missing_tool, "the ranges of a step on " + session.config().device + " are not written",
                      "a step there is one graph, which only a CUPTI collector sees into; leave `ranges` out");
  if (options.tensors && session.config().device != "cpu")
    return make_error(Status::missing_tool, "the seams' inputs on " + session.config().device + " are not kept",
                      "leave `tensors` out, or take a preset of device cpu");
  KL_CHECK(write_start(session, events));
  RunSummary summary;
  std::optional<RangeLog> log;
  if (options.ranges) log.emplace();
  std::optional<TensorLog> tensors;
  if (options.tensors) {
    KL_TRY(tensors, TensorLog::create(session.config()));
  }
  int64_t timed_steps = 0;
  const RunSteps steps(options.warmup_steps, options.steps, options.turns);
  KL_TRY(TurnChannel turn, TurnChannel::open(options.turns));
  Checkpoints checkpoints(session, options, events);
  const int64_t total = steps.total();
  const int64_t start = monotonic_ns();
  const auto elapsed = [&] { return options.resumed_seconds + static_cast<double>(monotonic_ns() - start) * 1e-9; };
  for (int64_t i = session.steps_done(); options.seconds > 0 || i < total; ++i) {
    const double progress =
        options.seconds > 0 ? elapsed() / options.seconds : static_cast<double>(i) / static_cast<double>(total);
    if (progress >= 1) break;
    KL_CHECK(keep_snapshot(session, options.snapshots, i));
    if (steps.waits_before(i)) KL_CHECK(turn.wait());
    const bool warmup = !steps.timed(i);
    const bool recorded = log && !warmup && options.ranges->holds(timed_steps);
    const bool kept = tensors && !warmup && timed_steps == options.tensors->step;
    if (!warmup) ++timed_steps;
    KL_TRY(const StepResult step, recorded_step(session, progress, recorded ? &*log : nullptr, kept ? &*tensors : nullptr));
    KL_CHECK(write_step(session, step, warmup, events));
    if (kept) KL_CHECK(write_tensors(step, *tensors, options.tensors->folder, events));
    if (recorded) KL_CHECK(write_ranges(step, *log, events));
    if (step.runaway)
      return make_error(Status::execution_failed,
                        "the loss is " + std::to_string(step.loss) + " at step " + std::to_string(step.index),
                        "lower the learning rates, or verify the kernels of the seams");
    if (options.on_step) options.on_step(step, progress);
    ++summary.steps;
    summary.last_loss = step.loss;
    if (!warmup) {
      summary.tokens += session.config().tokens_per_step();
      summary.step_ns += step.ns;
    }
    if (options.stop && options.stop()) {
      summary.stopped = true;
      break;
    }
    KL_CHECK(checkpoints.while_running(elapsed()));
  }
  if (!summary.stopped && steps.waits_before(total)) KL_CHECK(turn.wait());
  KL_CHECK(checkpoints.at_the_end(elapsed()));
  if (!options.save.empty())
    KL_CHECK(save_weights(session, options.save));
  if (!options.skip_eval && !summary.stopped) {
    KL_TRY(const Evaluation evaluation, session.evaluate());
    const DatasetFacts& data = session.dataset().facts;
    Json fields = {{"step", summary.steps},
                   {"val_bpb", number_or_null(evaluation.val_bpb)},
                   {"val_loss", number_or_null(evaluation.val_loss)},
                   {"bytes", evaluation.bytes},
                   {"tokens", evaluation.tokens},
                   {"unigram_bpb", number_or_null(data.unigram_bpb)}};
    if (!data.bpb_unknown.empty()) fields["bpb_unknown"] = data.bpb_unknown;
    KL_CHECK(events.write("eval", std::move(fields)));
    summary.evaluation = evaluation;
  }
  summary.peak_bytes = session.stepper().peak_bytes();
  KL_CHECK(events.write("memory", {{"peak_bytes", summary.peak_bytes}}));
  KL_CHECK(events.write("finish", {{"steps", summary.steps},
                                   {"stopped", summary.stopped},
                                   {"seam_calls", by_seam(session.step_calls(), false)},
                                   {"evaluation_calls", by_seam(session.evaluation_calls(), false)}}));
  return summary;
}

// The error that stopped a run is its last event; an error of the stream itself wins nothing.
Error write_error(const Error& error, const EventStream& events) {
  const Outcome ignored = events.write("error", {{"what", error.what}, {"remedy", error.remedy}});
  static_cast<void>(ignored);
  return error;
}

Outcome write_gradients(const fs::path& path, std::span<const float> gradients) {
  return write_file_atomic(path, {reinterpret_cast<const char*>(gradients.data()), gradients.size_bytes()});
}

Outcome replay_all(Session& session, const Replay& replay, const EventStream& events) {
  KL_CHECK(write_start(session, events));
  KL_CHECK(make_directories(replay.gradients));
  for (size_t k = 0; k < replay.weights.size(); ++k) {
    KL_CHECK(load_weights(session, replay.weights[k]));
    session.restart_tokens();
    int64_t at = 0;
    for (const int64_t batch : replay.batches) {
      if (batch < 0)
        return make_error(Status::usage, "batch " + std::to_string(batch) + " is negative",
                          "0 is the first step's");
      if (batch < at) {
        session.restart_tokens();
        at = 0;
      }
      for (; at < batch; ++at) session.skip_batch();
      KL_TRY(const StepResult result, session.differentiate());
      ++at;
      const fs::path file = fs::path(replay.gradients) /
                            (std::to_string(k) + "-" + std::to_string(batch) + ".f32");
      KL_TRY(const std::span<const float> gradients, session.stepper().gradients());
      KL_CHECK(write_gradients(file, gradients));
      KL_CHECK(events.write("replay", {{"weights", replay.weights[k]},
                                       {"batch", batch},
                                       {"loss", number_or_null(result.loss)},
                                       {"grad_norm", number_or_null(result.grad_norm)},
                                       {"gradient", file.string()}}));
    }
  }
  KL_CHECK(events.write("memory", {{"peak_bytes", session.stepper().peak_bytes()}}));
  return events.write("finish", {{"steps", 0}, {"seam_calls", by_seam(session.step_calls(), false)}});
}

Outcome carry_out(const Plan& plan, const EventStream& events) {
  KL_TRY(const Config config, config_of(plan));
  KL_TRY(Dataset dataset, open_dataset(config, {}));
  KL_TRY(const auto session, Session::open(config, std::move(dataset), plan.libraries));
  if (plan.perturb) KL_CHECK(session->stepper().perturb(plan.perturb->seam, plan.perturb->seed));
  if (plan.mode == "replay") return replay_all(*session, *plan.replay, events);
  RunOptions options;
  options.warmup_steps = plan.warmup_steps;
  options.steps = plan.steps;
  options.skip_eval = plan.skip_eval;
  options.snapshots = plan.snapshots;
  options.turns = plan.turns;
  options.ranges = plan.ranges;
  options.tensors = plan.tensors;
  KL_TRY(const RunSummary unused, train(*session, options, events));
  static_cast<void>(unused);
  return {};
}

}  // namespace

Result<RunSummary> run_training(Session& session, const RunOptions& options, const EventStream& events) {
  auto summary = train(session, options, events);
  if (!summary.ok()) return write_error(summary.error(), events);
  return summary;
}

Outcome run_replay(Session& session, const Replay& replay, const EventStream& events) {
  const Outcome outcome = replay_all(session, replay, events);
  if (!outcome.ok()) return write_error(outcome.error(), events);
  return {};
}

Outcome run_plan(const fs::path& file) {
  KL_TRY(const Plan plan, read_plan(file));
  KL_TRY(const EventStream events, EventStream::append_to(plan.events));
  if (const Outcome outcome = carry_out(plan, events); !outcome.ok())
    return write_error(outcome.error(), events);
  return {};
}

}  // namespace kl::trainer
