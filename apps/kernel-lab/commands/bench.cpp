#include "session.hpp"
#include "verify_run.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/bench/bench.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/external.hpp>
#include <lab/report/bench_text.hpp>
#include <lab/report/verify_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string workspace, preset, against = "champion", device = "auto";
  bool quick = false, full = false, unverified = false;
  std::optional<uint64_t> seed;
};

Result<fs::path> baseline_source(const Context& context, const Session& session, const std::string& against) {
  if (against == "reference") return session.target.reference(*context.engine);
  if (against == "vendor")
    return make_error(Status::missing_runtime,
                      fmt::format("no vendor library has {} on {}", session.target.key, context.engine->name()),
                      "compare with --against champion or --against reference");
  return champion_source(context, session.target);
}

// A kernel whose current hash has not passed verify is verified first; a failure ends the bench.
Result<std::optional<Answer>> verified_first(Context& context, const Session& session, const Flags& flags) {
  if (flags.unverified) return std::optional<Answer>();
  KL_TRY(const bool verified, is_verified(context, session));
  if (verified) return std::optional<Answer>();
  context.note("this source has not passed verify: verify --quick runs first");
  KL_TRY(const fs::path champion, champion_source(context, session.target));
  const VerifyRecord record = run_verify(context, {session.target, session.kernel(), champion, session.preset,
                                                   session.shapes, session.workspace.folder.string(), false, false, flags.seed});
  KL_CHECK(record_verify(context, record, session.kernel()));
  if (record.status == Status::ok) return std::optional<Answer>();
  Answer answer;
  answer.record = to_json(record);
  answer.text = verify_text(record, context.style);
  answer.exit_code = exit_code_of(record.status);
  answer.next = command_line(context, fmt::format("verify --workspace {}   (after mending the kernel)", shell_word(flags.workspace)));
  return std::optional(answer);
}

Result<Answer> run_bench(Context& context, const Flags& flags) {
  KL_CHECK(require_device(context, flags.device));
  KL_TRY(const Session session, open_session(context, flags.workspace, flags.preset));
  if (session.shapes.empty())
    return make_error(Status::unsupported_target,
                      is_external(session.preset)
                          ? fmt::format("{} says no shape of {}: a trace holds times alone", session.preset, session.target.key)
                      : session.target.seam.empty()
                          ? fmt::format("{} has no seam in the trainer, so no shape of it is timed", session.target.key)
                          : fmt::format("preset {} calls {} at no shape", session.preset, session.target.key),
                      is_external(session.preset) && !session.target.seam.empty()
                          ? command_line(context, fmt::format("bench --workspace {} --preset smoke   (or another preset of the lab's trainer)",
                                                              shell_word(flags.workspace)))
                          : "choose a preset with a seam for it, or measure it with a program in benchmarks/");
  KL_TRY(const auto stopped, verified_first(context, session, flags));
  if (stopped) return *stopped;

  BenchRequest request;
  request.engine = context.engine;
  request.target = &session.target;
  request.candidate = session.kernel();
  KL_TRY(request.baseline, baseline_source(context, session, flags.against));
  request.baseline_name = flags.against;
  request.shapes = session.shapes;
  request.preset = session.preset;
  request.workspace = session.workspace.folder.string();
  request.mode = flags.quick ? BenchMode::quick : flags.full ? BenchMode::full : BenchMode::normal;
  request.seed = flags.seed;
  request.samples = context.samples().root();
  if (session.calibration) request.ceilings = session.calibration->ceilings;
  request.progress = context.progress;
  const BenchRecord record = bench(request);
  Json details = {{"record", to_json(record)}, {"against", flags.against}, {"unverified", flags.unverified}};
  KL_TRY(const LedgerEvent event,
         record_event(context, "bench", record, "time_ratio",
                      record.ratio > 0 ? std::optional(record.ratio) : std::nullopt, details));

  Answer answer;
  answer.record = to_json(record);
  answer.text = bench_text(record, context.style);
  if (!session.calibration) answer.text += "         no ceilings on file: `kernel-lab calibrate` measures this machine\n";
  answer.exit_code = exit_code_of(record.status);
  KL_TRY(const Assessment now, assess_now(context, session.catalogue, session.target, session.preset, session.kernel(),
                                          session.workspace.folder.string()));
  answer.next = now.next.command;
  return answer;
}

}  // namespace

Command command_bench() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "bench";
  command.summary = "is it faster? timing verdict against the champion";
  command.examples = {"bench --workspace mine --quick", "bench --workspace mine --full --preset cpu-balanced",
                      "bench --workspace mine --against reference"};
  command.flags = [flags](CLI::App& app) {
    app.add_option("--workspace", flags->workspace, "workspace folder")->required()->type_name("DIR");
    auto* quick = app.add_flag("--quick", flags->quick, "6 processes, δ 2 %");
    app.add_flag("--full", flags->full, "20 processes, δ 0.5 % (default: 10 processes, δ 1 %)")->excludes(quick);
    app.add_option("--against", flags->against, "champion, reference or vendor")
        ->check(CLI::IsMember({"champion", "reference", "vendor"}));
    app.add_option("--preset", flags->preset, "trainer operating point whose shapes are timed")->type_name("NAME");
    app.add_option("--device", flags->device, "auto, cpu, cuda or an index")->type_name("DEVICE");
    app.add_flag("--unverified", flags->unverified, "skip verify; the result cannot promote");
    app.add_option("--seed", flags->seed, "replays the inputs of a recorded run")->check(seed_check())->type_name("N");
  };
  command.run = [flags](Context& context) { return run_bench(context, *flags); };
  return command;
}

}  // namespace kl::app
