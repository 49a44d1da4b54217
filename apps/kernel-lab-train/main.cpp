// kernel-lab-train: the reference trainer as a program. Flags here, everything else in trainer/.
#include <apps/command_line/number_checks.hpp>
#include <apps/command_line/usage.hpp>
#include <trainer/checkpoint.hpp>
#include <trainer/derivative.hpp>
#include <trainer/loss_curve.hpp>
#include <trainer/regions.hpp>
#include <trainer/run.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdio>

namespace {

using namespace kl;
using namespace kl::trainer;
using app::no_empty_values;
using app::seconds_check;
using app::usage_error;
using app::whole_number_check;

struct Flags {
  std::string plan;
  std::string preset = "cpu-balanced";
  std::vector<std::string> settings;
  std::string corpus;
  double seconds = 0;
  int64_t steps = 0;
  std::string events;
  std::string save;
  std::string checkpoint;
  int64_t checkpoint_every = 0;
  std::string resume;
  std::string weights;
  std::string output;
  std::string curve;
  bool skip_eval = false;
  bool json = false;
};

int fail(const Error& error) {
  fmt::print(stderr, "kernel-lab-train: {}\n", error.what);
  if (!error.remedy.empty()) fmt::print(stderr, "  {}\n", error.remedy);
  return static_cast<int>(exit_code_of(error.status));
}

int answer(const Json& json) {
  fmt::print("{}\n", dump_line(json));
  return std::fflush(stdout) == 0 ? 0 : fail(make_error(Status::error, "cannot write the answer"));
}

Outcome apply_flags(const Flags& flags, Config& config) {
  for (const auto& setting : flags.settings) KL_CHECK(apply_setting(config, setting));
  if (!flags.corpus.empty()) config.corpus = flags.corpus;
  return validate(config);
}

Result<Config> chosen(const Flags& flags) {
  KL_TRY(Config config, Presets::find(flags.preset));
  KL_CHECK(apply_flags(flags, config));
  return config;
}

Progress progress_to(bool terminal) {
  if (!terminal) return {};
  return [](const ProgressStep& step) { fmt::print(stderr, "data: {} ...\n", step.message); };
}

volatile std::sig_atomic_t interrupted = 0;

// The first interrupt asks the run to stop after its step; the second one is the system's.
void stop_after_the_step() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

// One line that rewrites itself: step, loss, speed, time left.
void show_step(const StepResult& step, double progress, int64_t tokens, double elapsed_seconds) {
  const double left = progress > 0 ? elapsed_seconds * (1 - progress) / progress : 0;
  fmt::print(stderr, "\rstep {}  loss {:.4f}  {:.0f} tokens/s  {:.0f} s left   ", step.index,
             step.loss, static_cast<double>(tokens) / (static_cast<double>(step.ns) * 1e-9), left);
}

void print_evaluation(const Evaluation& evaluation, const DatasetFacts& data) {
  if (!data.bpb_unknown.empty()) {
    fmt::print("held out: {:.4f} nats per token, {} tokens; bits per byte unknown: {}\n", evaluation.val_loss,
               evaluation.tokens, data.bpb_unknown);
    return;
  }
  fmt::print(
      "held out: {:.4f} bits per byte ({:+.1f} % against {:.4f} of its token unigrams), {} "
      "tokens\n",
      evaluation.val_bpb, 100 * (evaluation.val_bpb / data.unigram_bpb - 1), data.unigram_bpb,
      evaluation.tokens);
}

void print_summary(const Config& config, const DatasetFacts& data, const RunSummary& summary) {
  fmt::print("preset {}: {} steps, {} tokens, loss {:.4f}\n", config.name, summary.steps,
             summary.tokens, summary.last_loss);
  if (summary.step_ns > 0)
    fmt::print("{:.1f} ms a step, {:.0f} tokens/s, peak memory {:.0f} MB\n",
               static_cast<double>(summary.step_ns) * 1e-6 / static_cast<double>(summary.steps),
               static_cast<double>(summary.tokens) / (static_cast<double>(summary.step_ns) * 1e-9),
               static_cast<double>(summary.peak_bytes) * 1e-6);
  if (summary.evaluation) print_evaluation(*summary.evaluation, data);
}

Result<std::unique_ptr<Session>> open_session(const Config& config, bool terminal) {
  KL_TRY(Engine * engine, find_engine(config.device));
  KL_CHECK(engine->usable());
  KL_TRY(const SeamFiles libraries, champion_files(config, *engine, Builder(*engine)));
  KL_TRY(Dataset dataset, open_dataset(config, progress_to(terminal)));
  return Session::open(config, std::move(dataset), libraries);
}

// Where a run is taken up again, and its settings.
Result<CheckpointFacts> starting_point(const Flags& flags) {
  if (flags.resume.empty()) {
    CheckpointFacts facts;
    KL_TRY(facts.config, chosen(flags));
    facts.position.seconds = flags.seconds;
    facts.position.steps = flags.seconds > 0 ? 0
                           : flags.steps > 0 ? flags.steps
                                             : facts.config.steps;
    return facts;
  }
  KL_TRY(CheckpointFacts facts, read_checkpoint_facts(flags.resume));
  KL_CHECK(apply_flags(flags, facts.config));
  if (flags.steps > 0) facts.position.steps = flags.steps, facts.position.seconds = 0;
  if (flags.seconds > 0) facts.position.seconds = flags.seconds;
  const bool over = facts.position.seconds > 0 ? facts.position.elapsed >= facts.position.seconds
                                               : facts.position.step >= facts.position.steps;
  if (over)
    return make_error(
        Status::usage,
        fmt::format("{} is at the end of its run: step {}", flags.resume, facts.position.step),
        "give a larger --steps or --time to train on, or `eval --weights` to evaluate it");
  return facts;
}

// The exit code: 0, or 130 when it was interrupted.
Result<int> train(const Flags& flags) {
  KL_TRY(const CheckpointFacts from, starting_point(flags));
  const Config& config = from.config;
  const bool terminal = isatty(STDERR_FILENO) == 1;
  KL_TRY(EventStream events, flags.events.empty() ? Result<EventStream>(EventStream())
                                                  : EventStream::append_to(flags.events));
  KL_TRY(const auto session, open_session(config, terminal));
  if (!flags.resume.empty()) KL_CHECK(resume(*session, from, flags.resume));
  stop_after_the_step();
  RunOptions options;
  options.seconds = from.position.seconds;
  options.steps = from.position.steps;
  options.resumed_seconds = from.position.elapsed;
  options.skip_eval = flags.skip_eval;
  options.save = flags.save;
  options.checkpoint = !flags.checkpoint.empty() ? flags.checkpoint : flags.resume;
  options.checkpoint_every = flags.checkpoint_every;
  const std::string emergency = config.name + ".checkpoint.safetensors";
  options.stop = [&] {
    if (interrupted != 0 && options.checkpoint.empty()) options.checkpoint = emergency;
    return interrupted != 0;
  };
  options.on_warning = [](const Error& error) {
    fmt::print(stderr, "\nkernel-lab-train: {}; the run goes on\n  {}\n", error.what, error.remedy);
  };
  double elapsed = 0;
  if (terminal)
    options.on_step = [&](const StepResult& step, double progress) {
      elapsed += static_cast<double>(step.ns) * 1e-9;
      show_step(step, progress, config.tokens_per_step(), elapsed);
    };
  const auto summary = run_training(*session, options, events);
  if (terminal) fmt::print(stderr, "\r\033[K");
  if (!summary.ok()) return summary.error();
  print_summary(config, session->dataset().facts, *summary);
  if (!summary->stopped) return 0;
  fmt::print(stderr,
             "kernel-lab-train: stopped after {} steps; {} holds the run\n  go on with: "
             "kernel-lab-train --resume {}\n",
             session->steps_done(), options.checkpoint, options.checkpoint);
  return 130;
}

// A session with the weights of a checkpoint, of a file of weights under --preset, or the first ones.
Result<std::unique_ptr<Session>> open_with_weights(const Flags& flags) {
  Metadata metadata;
  if (!flags.weights.empty()) {
    KL_TRY(metadata, read_metadata(flags.weights));
  }
  Config config;
  if (metadata.contains("checkpoint")) {
    KL_TRY(const CheckpointFacts facts, read_checkpoint_facts(flags.weights));
    config = facts.config;
  } else {
    KL_TRY(config, Presets::find(flags.preset));
  }
  KL_CHECK(apply_flags(flags, config));
  KL_TRY(auto session, open_session(config, isatty(STDERR_FILENO) == 1));
  if (!flags.weights.empty()) {
    KL_TRY(const std::span<float> weights, session->stepper().weights());
    KL_TRY(const Metadata unused,
           read_safetensors(flags.weights, named_tensors(session->layout(), weights)));
    KL_CHECK(session->stepper().weights_changed());
  }
  return session;
}

Outcome evaluate(const Flags& flags) {
  KL_TRY(const auto session, open_with_weights(flags));
  KL_TRY(const Evaluation evaluation, session->evaluate());
  print_evaluation(evaluation, session->dataset().facts);
  return {};
}

Outcome differentiate(const Flags& flags) {
  KL_TRY(const auto session, open_with_weights(flags));
  KL_TRY(const StepResult result, write_derivative(*session, flags.output));
  fmt::print("loss {:.6f}, gradient norm {:.6f}: {}\n", result.loss, result.grad_norm, flags.output);
  return {};
}

Outcome show_curve(const Flags& flags) {
  KL_TRY(const std::vector<double> losses, read_losses(flags.curve));
  fmt::print("{}", draw_losses(losses, 64, 12));
  return {};
}

int list_presets() {
  const auto presets = Presets::all();
  if (!presets.ok()) return fail(presets.error());
  Json list = Json::array();
  for (const Config& preset : *presets)
    list.push_back({{"name", preset.name},
                    {"family", preset.family},
                    {"strength", preset.strength},
                    {"device", preset.device},
                    {"description", preset.description},
                    {"parameters", preset.parameter_count()},
                    {"tokens_per_step", preset.tokens_per_step()},
                    {"turns", preset.device == "cpu"}});
  return answer({{"protocol", 1}, {"presets", list}});
}

int list_seams(const Flags& flags) {
  const auto config = chosen(flags);
  if (!config.ok()) return fail(config.error());
  Json list = Json::array();
  for (const auto& seams : {describe_seams(*config), describe_shadowed_seams(*config)})
    for (const auto& seam : seams) list.push_back(to_json(seam));
  return answer({{"protocol", 1}, {"preset", config->name}, {"seams", list}});
}

int list_regions(const Flags& flags) {
  const auto config = chosen(flags);
  if (!config.ok()) return fail(config.error());
  Json list = Json::array();
  for (const RegionChoices& region : describe_regions(*config)) list.push_back(to_json(region));
  return answer({{"preset", config->name}, {"regions", list}});
}

int prepare_data(const Flags& flags) {
  const auto config = chosen(flags);
  if (!config.ok()) return fail(config.error());
  const auto dataset = open_dataset(*config, progress_to(isatty(STDERR_FILENO) == 1));
  if (!dataset.ok()) return fail(dataset.error());
  const DatasetFacts& facts = dataset->facts;
  if (flags.json) {
    Json json = to_json(facts);
    json.erase("piece_bytes");
    json["folder"] = dataset->folder.string();
    return answer(json);
  }
  fmt::print("{}: {} documents, {} bytes (files {})\n", facts.corpus, facts.documents,
             facts.bytes > 0 ? std::to_string(facts.bytes) : "unknown", facts.corpus_hash.substr(0, 12));
  fmt::print("{} tokens to train on, {} held out in {} documents\n", facts.train_tokens,
             facts.held_out_tokens, facts.held_out_documents);
  if (facts.bpb_unknown.empty())
    fmt::print("held-out token unigrams: {:.4f} bits per byte\n", facts.unigram_bpb);
  else
    fmt::print("bits per byte unknown: {}\n", facts.bpb_unknown);
  fmt::print("{}\n", dataset->folder.string());
  return 0;
}

void add_preset_flags(CLI::App& app, Flags& flags) {
  app.add_option("--preset", flags.preset, "operating point: see `kernel-lab-train presets`")
      ->capture_default_str();
  app.add_option("--set", flags.settings, "override a preset field, key=value; repeatable")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--corpus", flags.corpus, "text, or a folder of token shards: as --set corpus=...");
}

void add_run_flags(CLI::App& app, Flags& flags) {
  constexpr double kMonth = 30 * 86'400.0;
  const CLI::Validator steps = whole_number_check(1, int64_t{1} << 40);
  add_preset_flags(app, flags);
  app.add_option("--time", flags.seconds, "train for so many seconds")->check(seconds_check(kMonth));
  app.add_option("--steps", flags.steps, "train for so many steps")->check(steps);
  app.add_option("--events", flags.events, "append the event stream, JSON lines, to this file");
  app.add_option("--save", flags.save, "write the weights (safetensors) before evaluation");
  app.add_option("--checkpoint", flags.checkpoint,
                 "write the whole run here before evaluation and when it is stopped");
  app.add_option("--checkpoint-every", flags.checkpoint_every, "and after every so many steps")
      ->check(steps);
  app.add_option("--resume", flags.resume,
                 "go on with the run of this checkpoint: its settings, steps and data");
  app.add_flag("--skip-eval", flags.skip_eval, "no evaluation at the end");
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed reader is an error of write(), with a message
  Flags flags;
  CLI::App app(
      "kernel-lab-train: pretrains a small GPT on real text; every operation is a seam that a\n"
      "kernel library can take over.");
  app.footer(
      "Examples:\n"
      "  kernel-lab-train --preset smoke                  seconds of training, then an evaluation\n"
      "  kernel-lab-train --preset cpu-balanced --time 300 --events run.jsonl\n"
      "  kernel-lab-train train --set corpus=/data/books --set rows=8\n"
      "  kernel-lab-train --preset cpu-balanced --checkpoint run.safetensors --checkpoint-every "
      "200\n"
      "  kernel-lab-train --resume run.safetensors        after an interrupt: the same bits as "
      "without one\n"
      "  kernel-lab-train eval --weights run.safetensors  bits per byte of held-out text\n"
      "  kernel-lab-train curve run.jsonl                 the loss of an event stream, drawn\n"
      "  kernel-lab-train data --preset cpu-balanced      vocabulary and shards, ahead of time\n"
      "  kernel-lab-train seams --preset smoke            seams and shapes, as JSON\n"
      "  kernel-lab-train --plan plan.json                what `kernel-lab integration-ab` runs\n"
      "Data made elsewhere: set KERNEL_LAB_DATA to the folder that `data` printed there, or name with --corpus a folder\n"
      "of token shards (*_train_*.bin, *_val_*.bin: llm.c, modded-nanogpt), with --set vocab=50304 for GPT-2's.");
  app.name("kernel-lab-train");
  app.set_version_flag("--version", KL_VERSION);
  app.require_subcommand(0, 1);
  app.add_option("--plan", flags.plan, "carry out a plan of the trainer protocol");
  add_run_flags(app, flags);
  auto* train_command = app.add_subcommand("train", "train (the default)");
  add_run_flags(*train_command, flags);
  auto* presets_command = app.add_subcommand("presets", "every preset, as JSON");
  auto* seams_command =
      app.add_subcommand("seams", "the seams of a preset and their shapes, as JSON");
  add_preset_flags(*seams_command, flags);
  auto* regions_command = app.add_subcommand(
      "regions", "what runs each region of a preset's step, and what may run it, as JSON");
  add_preset_flags(*regions_command, flags);
  auto* data_command = app.add_subcommand("data", "prepare the vocabulary and shards of a preset");
  add_preset_flags(*data_command, flags);
  data_command->add_flag("--json", flags.json, "one JSON object");
  auto* eval_command = app.add_subcommand("eval", "evaluate a checkpoint, or weights of a preset");
  add_preset_flags(*eval_command, flags);
  eval_command->add_option("--weights", flags.weights, "a file that --checkpoint or --save wrote")
      ->required();
  auto* differentiate_command = app.add_subcommand(
      "differentiate", "loss and gradient of the first step, for a comparison with another program");
  add_preset_flags(*differentiate_command, flags);
  differentiate_command->add_option(
      "--weights", flags.weights,
      "a file that --checkpoint or --save wrote; without it the first weights");
  differentiate_command
      ->add_option("--output", flags.output,
                   "weights, tokens, loss and gradients go here, as safetensors")
      ->required();
  auto* curve_command = app.add_subcommand("curve", "draw the loss of an event stream");
  curve_command->add_option("events", flags.curve, "a file that --events wrote")->required();
  auto* version_command = app.add_subcommand("version", "the version");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return fail(usage_error(app, error));
  }
  if (const Outcome given = no_empty_values(app); !given.ok()) return fail(given.error());
  if (*version_command) {
    fmt::print("{}\n", KL_VERSION);
    return 0;
  }
  if (*presets_command) return list_presets();
  if (*seams_command) return list_seams(flags);
  if (*regions_command) return list_regions(flags);
  if (*data_command) return prepare_data(flags);
  if (*eval_command || *differentiate_command || *curve_command || !flags.plan.empty()) {
    const Outcome outcome = *eval_command            ? evaluate(flags)
                            : *differentiate_command ? differentiate(flags)
                            : *curve_command         ? show_curve(flags)
                                                     : run_plan(flags.plan);
    return outcome.ok() ? 0 : fail(outcome.error());
  }
  const auto code = train(flags);
  return code.ok() ? *code : fail(code.error());
}
