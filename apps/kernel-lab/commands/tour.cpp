// The main job end to end, by the verbs a user runs, on real runs: three kernels, three endings.
#include "command.hpp"
#include "records.hpp"

#include <lab/core/clock.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/process.hpp>
#include <lab/report/figures.hpp>
#include <lab/report/table.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl::app {
namespace {

constexpr std::string_view kPreset = "smoke";

// Runs verbs of this very program in a scratch folder and shows them as a user would see them.
class Guide {
 public:
  Guide(Context& context, fs::path folder) : context_(context), folder_(std::move(folder)) {}

  void heading(std::string_view text) { print(fmt::format("\n{}\n", context_.style.bold(text))); }
  void say(std::string_view text) { print(fmt::format("{}\n", text)); }

  // Shows the command and its output. A verdict of any kind is an answer; a failure of the lab is not.
  Outcome run(std::vector<std::string> verb) {
    print(fmt::format("\n{} kernel-lab {}\n", context_.style.dim("$"), fmt::join(verb, " ")));
    kl::Command command = lab(verb);
    command.on_stdout = [this](std::string_view text) { print(text); };
    command.pass_stderr = !context_.json;
    KL_TRY(const Finished finished, run_process(command));
    commands_.push_back({verb, finished.exit_code, finished.wall_seconds});
    if (finished.exit_code == 1 || finished.exit_code == 2 || finished.exit_code < 0)
      return make_error(Status::error, fmt::format("`kernel-lab {}` ended with exit code {}", fmt::join(verb, " "), finished.exit_code),
                        "run `kernel-lab doctor`, then the tour again with --keep to look at its folder");
    return {};
  }

  // The same verb's record, for the tour's own summary.
  Result<Json> ask(std::vector<std::string> verb) {
    verb.push_back("--json");
    KL_TRY(const Finished finished, run_process(lab(verb)));
    return parse_json(finished.out, "kernel-lab " + verb.front());
  }

  const std::vector<TourCommand>& commands() const { return commands_; }

 private:
  kl::Command lab(const std::vector<std::string>& verb) const {
    kl::Command command;
    command.arguments = {(Installation::find().bin / "kernel-lab").string()};
    command.arguments.insert(command.arguments.end(), {"--engine", "cpu", "--targets", "targets", "--ledger", "results/ledger.jsonl",
                                                       "--color", context_.style.color ? "always" : "never"});
    command.arguments.insert(command.arguments.end(), verb.begin(), verb.end());
    command.folder = folder_;
    command.timeout_seconds = 900;
    return command;
  }
  void print(std::string_view text) {
    if (context_.json) return;
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  Context& context_;
  fs::path folder_;
  std::vector<TourCommand> commands_;
};

Outcome place_file(const fs::path& from, const fs::path& to) {
  KL_TRY(const std::string content, read_file(from));
  return write_file_atomic(to, content);
}

// targets/ of the tour: copies in which two champions are the plain references.
Outcome make_scratch_targets(const fs::path& folder) {
  const fs::path installed = Installation::find().targets;
  for (const std::string key : {"rmsnorm", "activation_pointwise", "loss_prelude"})
    for (const std::string file : {"spec.toml", "oracle.cpp", "reference.cpp", "kernel.cpp", "README.md"}) {
      const bool plain = file == "kernel.cpp" && key != "activation_pointwise";
      KL_CHECK(place_file(installed / key / (plain ? "reference.cpp" : file), folder / "targets" / key / file));
    }
  return {};
}

Result<TourEnding> wrong_kernel(Guide& guide, const fs::path& folder) {
  guide.heading("1. A kernel that looks right and is wrong");
  guide.say("An rmsnorm that works in blocks of eight and forgets what is left of a row.");
  KL_CHECK(guide.run({"init", "--target", "rmsnorm", "--workspace", "wrong", "--preset", std::string(kPreset)}));
  KL_CHECK(place_file(Installation::find().examples / "tour" / "rmsnorm_wrong.cpp", folder / "wrong" / "kernel.cpp"));
  KL_CHECK(guide.run({"verify", "--workspace", "wrong", "--quick"}));
  KL_TRY(const Json now, guide.ask({"promotion-check", "--target", "rmsnorm", "--workspace", "wrong"}));
  return TourEnding{"rmsnorm that drops the tail", "rejected", now.value("answer", ""),
                "verify found an element further from the oracle than any correct kernel could be: it never reaches a bench"};
}

// The newest event of one type that counts for the candidate, or null.
Json newest_line(const Json& assessment, const char* group, std::string_view event_type) {
  Json newest;
  for (const auto& line : assessment.value(group, Json::array()))
    if (line.value("event_type", "") == event_type && line.value("counts", false)) newest = line;
  return newest;
}

Result<TourEnding> useless_kernel(Guide& guide, const fs::path& folder) {
  guide.heading("2. A kernel that is faster and cannot matter");
  guide.say("The champion of rmsnorm is the plain reference here; one with a vectorised forward pass is tried.");
  KL_CHECK(guide.run({"init", "--target", "rmsnorm", "--workspace", "useless", "--preset", std::string(kPreset)}));
  KL_CHECK(place_file(Installation::find().examples / "tour" / "rmsnorm_forward.cpp", folder / "useless" / "kernel.cpp"));
  KL_CHECK(guide.run({"verify", "--workspace", "useless", "--quick"}));
  KL_CHECK(guide.run({"bench", "--workspace", "useless", "--quick"}));
  KL_CHECK(guide.run({"promotion-check", "--target", "rmsnorm", "--workspace", "useless"}));
  KL_TRY(const Json now, guide.ask({"promotion-check", "--target", "rmsnorm", "--workspace", "useless"}));
  const auto number = [&](const char* key) { return now[key].is_number() ? now[key].get<double>() : std::nan(""); };
  const Json bench = newest_line(now, "heuristic", "bench");
  const bool won = bench.is_object() && bench.value("status", "") == "improved";
  return TourEnding{"faster rmsnorm", "deprioritized", now.value("answer", ""),
                    fmt::format("{}, but its seam is {} of the step: at most {} to gain, and {} is needed to count here",
                                won ? "it wins its bench" : "its bench did not show a win this time",
                                share_text(number("seam_share")), share_text(number("gain_bound"), 2),
                                share_text(number("gain_threshold"), 2))};
}

Result<TourEnding> good_kernel(Guide& guide, const fs::path& folder) {
  guide.heading("3. A kernel that earns its place");
  guide.say("The champion of loss_prelude is the plain reference here; a vectorised, fused one is tried.");
  KL_CHECK(guide.run({"init", "--target", "loss_prelude", "--workspace", "better", "--preset", std::string(kPreset)}));
  KL_CHECK(place_file(Installation::find().targets / "loss_prelude" / "kernel.cpp", folder / "better" / "kernel.cpp"));
  KL_CHECK(guide.run({"verify", "--workspace", "better", "--quick"}));
  KL_CHECK(guide.run({"bench", "--workspace", "better", "--quick"}));
  KL_CHECK(guide.run({"integration-ab", "--workspace", "better", "--benchmark-skip-eval", "--no-checkpoint"}));
  KL_TRY(const Json before, guide.ask({"promotion-check", "--target", "loss_prelude", "--workspace", "better"}));
  KL_CHECK(guide.run({"promote", "--workspace", "better", "--apply"}));
  KL_TRY(const Json now, guide.ask({"promotion-check", "--target", "loss_prelude", "--workspace", "better"}));
  const Json ab = newest_line(before, "integration", "integration-ab");
  const bool measured = ab.is_object() && ab["metric_value"].is_number();
  return TourEnding{"fused loss_prelude", "promoted", now.value("state", ""),
                fmt::format("the trainer itself got faster ({}), every gate passed, and promote --apply made it the champion",
                            measured ? percent_text(ab["metric_value"].get<double>()) : "by an amount not on record")};
}

Result<Answer> run_tour(Context& context, const std::string& keep) {
  KL_TRY(const TemporaryFolder scratch, TemporaryFolder::create("kernel-lab-tour"));
  const fs::path folder = keep.empty() ? scratch.path() : fs::absolute(keep);
  if (!keep.empty() && fs::exists(folder) && !fs::is_empty(folder))
    return make_error(Status::usage, fmt::format("{} is not empty", folder.string()), "give --keep a new folder");
  KL_CHECK(make_scratch_targets(folder));
  const int64_t begun_ns = monotonic_ns();
  Guide guide(context, folder);
  guide.say(fmt::format("Three kernels, three endings, by real runs on this machine (preset {}). Everything happens in\n{}: a copy of the "
                        "targets in which two champions are the plain references.", kPreset, folder.string()));
  guide.heading("0. What this machine can tell apart");
  KL_CHECK(guide.run({"calibrate", "--quick", "--aa", "--preset", std::string(kPreset)}));
  std::vector<TourEnding> endings;
  for (auto* story : {wrong_kernel, useless_kernel, good_kernel}) {
    KL_TRY(TourEnding ending, story(guide, folder));
    const bool as_expected = ending.reached == ending.expected;
    if (!as_expected)
      ending.sentence = fmt::format("ended {} instead of {} this time: on a busy machine the lab says so rather than guess", ending.reached, ending.expected);
    guide.say(fmt::format("\n{} {}.", context.style.bold("So:"), ending.sentence));
    endings.push_back(std::move(ending));
  }

  TourRecord record = new_record<TourRecord>();
  record.engine = "cpu";
  record.preset = kPreset;
  record.status = Status::ok;
  record.commands = guide.commands();
  record.endings = endings;
  if (!keep.empty()) record.folder = folder.string();
  record.wall_seconds = static_cast<double>(monotonic_ns() - begun_ns) * 1e-9;
  Table table({"kernel", "ending", "because"});
  for (const auto& ending : endings) {
    table.row({ending.kernel, ending.reached, ending.sentence});
    if (ending.reached == ending.expected) continue;
    record.status = Status::inconclusive;
    record.reason = fmt::format("{} ended {} instead of {}", ending.kernel, ending.reached, ending.expected);
    record.remedy = "run the tour again when the machine is quiet";
  }
  Answer answer;
  answer.record = to_json(record);
  answer.exit_code = exit_code_of(record.status);
  answer.text = fmt::format("\n{} ({})\n{}", context.style.bold("Three endings"),
                            duration_text(record.wall_seconds), table.text(context.style));
  answer.next = "kernel-lab init --target rmsnorm --workspace mine";
  return answer;
}

}  // namespace

Command command_tour() {
  auto keep = std::make_shared<std::string>();
  Command command;
  command.name = "tour";
  command.summary = "the main job end to end on the cpu engine, explained step by step, in about five minutes";
  command.examples = {"tour", "tour --keep DIR   (leaves its workspaces, targets and ledger there)"};
  command.flags = [keep](CLI::App& app) {
    app.add_option("--keep", *keep, "work in this folder and leave it")->type_name("DIR");
  };
  command.run = [keep](Context& context) { return run_tour(context, *keep); };
  return command;
}

}  // namespace kl::app
