#include "session.hpp"
#include "verify_champions.hpp"
#include "verify_run.hpp"

#include <apps/command_line/number_checks.hpp>
#include <lab/core/shell.hpp>
#include <lab/flow/external.hpp>
#include <lab/report/verify_text.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace kl::app {
namespace {

struct Flags {
  std::string workspace, preset, device = "auto";
  std::string target, tensors;
  bool champions = false, resume = false, quick = false, full = false, sanitize = false;
  std::optional<uint64_t> seed;
};

}  // namespace

Command command_verify() {
  auto flags = std::make_shared<Flags>();
  Command command;
  command.name = "verify";
  command.summary = "is the kernel right? fixed harness, error-model bounds";
  command.examples = {"verify --workspace mine --quick", "verify --workspace mine --full --sanitize",
                      "verify --champions --full --resume", "verify --champions --target rmsnorm",
                      "verify --workspace mine --tensors t/smoke.tensors   (real data, kept by capture --tensors)",
                      "verify --workspace mine --seed 42   (replays a recorded run)"};
  command.flags = [flags](CLI::App& app) {
    auto* workspace = app.add_option("--workspace", flags->workspace, "workspace folder")->type_name("DIR");
    auto* champions = app.add_flag("--champions", flags->champions, "every target's champion, for example after a compiler upgrade")
                          ->excludes(workspace);
    app.add_option("--target", flags->target, "with --champions: this target's alone")->needs(champions)->type_name("KEY");
    app.add_flag("--resume", flags->resume, "with --champions: leave out what has passed and has not changed since")->needs(champions);
    auto* quick = app.add_flag("--quick", flags->quick, "the quick case list (default)");
    app.add_flag("--full", flags->full, "the full case list, sanitizers included")->excludes(quick);
    app.add_flag("--sanitize", flags->sanitize, "also under the engine's sanitizers: AddressSanitizer and UBSan, or compute-sanitizer");
    app.add_option("--preset", flags->preset, "trainer operating point whose shapes are checked too")->type_name("NAME");
    app.add_option("--tensors", flags->tensors, "also judge it on what a trainer passed: a file or folder of capture --tensors")
        ->excludes(champions)->type_name("PATH");
    app.add_option("--device", flags->device, "auto, cpu, cuda or an index")->type_name("DEVICE");
    app.add_option("--seed", flags->seed, "replays the inputs of a recorded run")->check(seed_check())->type_name("N");
  };
  command.run = [flags](Context& context) -> Result<Answer> {
    KL_CHECK(require_device(context, flags->device));
    if (flags->champions)
      return verify_champions(context, {flags->target, flags->preset, flags->full, flags->sanitize, flags->resume, flags->seed});
    KL_TRY(const Session session, open_session(context, flags->workspace, flags->preset));
    KL_TRY(const fs::path champion, champion_source(context, session.target));
    std::vector<CapturedCall> captured;
    if (!flags->tensors.empty()) {
      KL_TRY(captured, read_captured(flags->tensors, session.target));
    }
    const VerifyRecord record =
        run_verify(context, {session.target, session.kernel(), champion, session.preset, session.shapes,
                             session.workspace.folder.string(), flags->full, flags->sanitize, flags->seed, std::move(captured)});
    KL_CHECK(record_verify(context, record, session.kernel()));
    Answer answer;
    answer.record = to_json(record);
    answer.text = verify_text(record, context.style);
    answer.exit_code = exit_code_of(record.status);
    const std::string workspace = shell_word(flags->workspace);
    if (record.status == Status::ok && (session.target.seam.empty() || is_external(session.preset)))
      answer.next = command_line(context, fmt::format("promotion-check --target {} --workspace {}",
                                                      session.target.key, workspace));
    else if (record.status == Status::ok)
      answer.next = command_line(context, fmt::format("bench --workspace {} --quick", workspace));
    else if (record.status == Status::mismatch || record.status == Status::rejected)
      answer.next = command_line(context, fmt::format("verify --workspace {} --seed {}{}", workspace, record.seed,
                                                      flags->tensors.empty() ? "" : " --tensors " + shell_word(flags->tensors))) +
                    "   (after mending the kernel)";
    return answer;
  };
  return command;
}

}  // namespace kl::app
